"""The seam between models of threads and what they work on: Countdown, or questions in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline_lib.systems.apr.problem_lines import ThreadProblem
from pipeline_lib.systems.apr.threads import Rollout, TextTokens, ThreadGrammar

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on a rollout whose parent did not fail."""

    claim: str | None
    """What the parent gives as its answer; None if it gives none."""
    answer: str | None
    """What the claim votes for; equal answers to one problem are right or wrong alike."""
    is_right: bool
    measures: Mapping[str, float] = field(default_factory=dict)
    """Further figures by name, where they are defined: shares, or 0 and 1."""


class ThreadTask(Protocol):
    """Prompts and texts of a model's threads, and what is right."""

    @property
    def grammar(self) -> ThreadGrammar:
        """Of its texts."""

    @property
    def tokens(self) -> TextTokens:
        """Of prompts on the wire."""

    def wire(self, text: str) -> str:
        """The prompt of a text, as it is sent."""

    def prompt(self, problem: ThreadProblem, condition: str) -> str:
        """The text of a parent before its first draw, with ``condition`` before it."""

    def judge(
        self, rollouts: Sequence[Rollout], problems: Mapping[str, ThreadProblem]
    ) -> list[Judged | None]:
        """The verdicts on rollouts, in their order; ``problems`` by the `Root.problem_id`. None: the parent failed."""


def rollout_row(rollout: Rollout, judged: Judged | None) -> Row:
    """A rollout as a plain dictionary: see `rollouts.rollout_fun`."""
    if judged is None:
        return {"seqs": [], "is_correct": False, "error": rollout.error}
    failed = {} if rollout.child_error is None else {"child_error": rollout.child_error}
    return {
        "seqs": [sequence.row() for sequence in rollout.sequences],
        "is_correct": judged.is_right,
        "claim": judged.claim,
        **failed,
    }


def evaluated_row(rollout: Rollout, judged: Judged | None) -> Row:
    """A row of rollouts.jsonl: as `rollout_row`, with names, counts, and without token ids.

    Ids and log-probabilities are left out: engines round differently, and the file is compared.
    """
    plain = rollout_row(rollout, judged)
    for sequence in plain["seqs"]:
        sequence.pop("output_ids", None)
        sequence.pop("logprobs", None)
    return {
        "problem_id": rollout.root.problem_id,
        "sample": rollout.root.sample,
        **plain,
        "answer": None if judged is None else judged.answer,
        "measures": {} if judged is None else dict(judged.measures),
        "end": rollout.end.value,
        "tokens": {
            "drawn": rollout.cost.completion_tokens,
            "critical": rollout.cost.critical_tokens,
            "total": rollout.total_tokens,
            "longest": rollout.longest_tokens,
        },
        "events": {event.value: count for event, count in sorted((+rollout.events).items())},
    }
