"""Online methods: the problems to sample groups for, and SFT rows for a warm start.

Stored groups select the problems and serve the warm start only; they are off-policy, so online
methods sample their own groups.
"""

from collections.abc import Sequence

from pipeline_lib.records import Group, Row
from pipeline_lib.train.rows.filters import filter_by_difficulty, pass_rate
from pipeline_lib.train.rows.lineage import group_lineage
from pipeline_lib.train.rows.supervised import count_supervised, make_supervised_rows
from pipeline_lib.train.rows.tables import BuildContext, Tables, shuffle_by_seed


def build_rollout_groups(groups: Sequence[Group], context: BuildContext) -> Tables:
    """Problems within the difficulty bounds, and SFT rows of all solved problems."""
    difficulty = filter_by_difficulty(groups, context.params)
    warm_start = make_supervised_rows(groups, context)
    problems = [_problem_row(group, context) for group in difficulty.kept]
    return Tables(
        rows=shuffle_by_seed(problems, context.seed, "problem_id"),
        counts=count_supervised(groups, warm_start) | difficulty.counts(),
        warm_start=warm_start,
    )


def _problem_row(group: Group, context: BuildContext) -> Row:
    return {
        "problem_id": group.problem.id,
        "prompt": context.render(group.problem),
        "pass_rate": pass_rate(group),
        "num_scored": len(group.scored()),
        **group_lineage(group),
        "verifier_version": context.verifier_version,
    }
