"""Rows of rollouts.jsonl."""

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.systems.apr.countdown.claims import is_child_right
from pipeline_lib.systems.apr.rollout import Role, Rollout
from pipeline_lib.systems.apr.rollouts import Row, rollout_row


def evaluated_row(rollout: Rollout, gold: CountdownGold) -> Row:
    """A row of rollouts.jsonl: as of `rollout_fun`, with names, counts, and without token ids.

    Ids and log-probabilities are left out: engines round differently, and the file is compared.
    """
    plain = rollout_row(rollout, gold)
    for sequence in plain["seqs"]:
        sequence.pop("output_ids", None)
        sequence.pop("logprobs", None)
    return {
        "problem_id": rollout.root.problem_id,
        "sample": rollout.root.sample,
        **plain,
        "any_child_right": any(
            is_child_right(gold, one.prefix, one.output)
            for one in rollout.sequences
            if one.role is Role.CHILD
        ),
        "end": rollout.end.value,
        "tokens": {
            "drawn": rollout.cost.completion_tokens,
            "critical": rollout.cost.critical_tokens,
            "total": rollout.total_tokens,
            "longest": rollout.longest_tokens,
        },
        "events": {event.value: count for event, count in sorted((+rollout.events).items())},
    }
