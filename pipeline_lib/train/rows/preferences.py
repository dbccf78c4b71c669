"""DPO pairs: a right and a wrong path of one problem, matched in length.

A rejected path has a wrong answer. Paths that are wrong in format only, have no answer, or hit the
token limit are in no pair.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline_lib.params.train import Method
from pipeline_lib.records import Group, JudgedPath, Pair, Row
from pipeline_lib.seeding import child_seed
from pipeline_lib.train.rows.filters import (
    count_paths,
    deduplicate,
    filter_by_difficulty,
    is_complete,
)
from pipeline_lib.train.rows.tables import (
    MAIN_TABLE,
    BuildContext,
    TrainData,
    path_lineage,
    shuffle_by_seed,
)
from pipeline_lib.verdicts import Status

MAX_USES_OF_A_PATH = 2
WRONG_BY_REASONING = frozenset(
    {Status.WRONG, Status.CRASHED, Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT}
)
"""The last four are failures of the candidate program, not of the verifier."""


def build_preferences(groups: Sequence[Group], context: BuildContext) -> TrainData:
    """Pairs from the problems within the difficulty bounds."""
    kept, problems = filter_by_difficulty(groups, context.params)
    pairs = [pair for group in kept for pair in match_pairs(group, context)]
    rows = [_row(pair, context) for pair in pairs]
    ids = ("chosen_path_id", "rejected_path_id")
    return TrainData(
        rows_by_table={MAIN_TABLE[Method.DPO]: shuffle_by_seed(rows, context.seed, *ids)},
        counts={
            **count_paths(groups),
            **problems,
            "dpo_rows": len(rows),
            "dpo_problems": len({pair.problem.id for pair in pairs}),
            **measure_length_bias(pairs),
        },
    )


def match_pairs(group: Group, context: BuildContext) -> list[Pair]:
    """At most ``max_pairs_per_problem`` pairs, preferring unused paths and similar lengths.

    The longer text has at most ``max_length_ratio`` times the characters of the shorter. A path is
    in at most two pairs; near duplicates count as one path.
    """
    members = [member for member in group.members if is_complete(member)]
    chosen = deduplicate(member for member in members if member.verdict.strict)
    rejected = deduplicate(member for member in members if is_wrong_by_reasoning(member))
    candidates = [
        Pair(problem=group.problem, chosen=right, rejected=wrong)
        for right in chosen
        for wrong in rejected
        if _log_ratio(right, wrong) <= math.log(context.params.max_length_ratio)
    ]
    candidates.sort(key=lambda pair: _preference(pair, context.seed))
    return _least_used(candidates, at_most=context.params.max_pairs_per_problem)


def is_wrong_by_reasoning(member: JudgedPath) -> bool:
    """True if the answer itself is wrong, not only its format."""
    return member.verdict.lenient is False and member.verdict.status in WRONG_BY_REASONING


def _log_ratio(first: JudgedPath, second: JudgedPath) -> float:
    return abs(math.log(len(first.path.text) / len(second.path.text)))


def _preference(pair: Pair, seed: int) -> tuple[float, int]:
    tie_break = child_seed(seed, "pair", pair.chosen.path.id, pair.rejected.path.id)
    return _log_ratio(pair.chosen, pair.rejected), tie_break


def _least_used(candidates: Iterable[Pair], *, at_most: int) -> list[Pair]:
    uses: Counter[str] = Counter()
    pairs: list[Pair] = []
    remaining = list(candidates)
    while remaining and len(pairs) < at_most:
        # Candidates are sorted by length ratio, and min() takes the first of equals.
        best = min(remaining, key=lambda pair: sum(uses[name] for name in _path_ids(pair)))
        pairs.append(best)
        uses.update(_path_ids(best))
        remaining = [
            pair
            for pair in remaining
            if pair is not best and all(uses[name] < MAX_USES_OF_A_PATH for name in _path_ids(pair))
        ]
    return pairs


def _path_ids(pair: Pair) -> tuple[str, str]:
    return pair.chosen.path.id, pair.rejected.path.id


def measure_length_bias(pairs: Sequence[Pair]) -> dict[str, float]:
    """Mean characters of chosen and rejected texts, and their ratio; empty without pairs.

    DPO learns a length bias if the ratio is far from 1.
    """
    if not pairs:
        return {}
    chosen = sum(len(pair.chosen.path.text) for pair in pairs) / len(pairs)
    rejected = sum(len(pair.rejected.path.text) for pair in pairs) / len(pairs)
    return {
        "chosen_mean_chars": chosen,
        "rejected_mean_chars": rejected,
        "chosen_to_rejected_chars": chosen / rejected,
    }


def _row(pair: Pair, context: BuildContext) -> Row:
    return {
        "problem_id": pair.problem.id,
        "prompt": context.render(pair.problem),
        "chosen": pair.chosen.path.text,
        "rejected": pair.rejected.path.text,
        **path_lineage(pair.chosen.path, prefix="chosen_"),
        **path_lineage(pair.rejected.path, prefix="rejected_"),
        "verifier_version": context.verifier_version,
    }
