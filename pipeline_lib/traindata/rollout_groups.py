"""Online methods: the problems worth drawing new groups for, and rows for a warm start.

The stored groups choose the problems and can warm the policy up by SFT. They are never trained on
as if the present policy had drawn them: such a method draws its own.
"""

from collections.abc import Sequence

from pipeline_lib.records import Group, Row
from pipeline_lib.traindata.filters import by_difficulty, pass_rate
from pipeline_lib.traindata.lineage import group_lineage
from pipeline_lib.traindata.supervised import supervised_counts, supervised_rows
from pipeline_lib.traindata.tables import BuildContext, Tables, in_seeded_order


def build_rollout_groups(groups: Sequence[Group], context: BuildContext) -> Tables:
    """The problems within the difficulty bounds, and SFT rows of all that were ever solved."""
    difficulty = by_difficulty(groups, context.params)
    warm_start = supervised_rows(groups, context)
    problems = [_problem_row(group, context) for group in difficulty.kept]
    return Tables(
        rows=in_seeded_order(problems, context.seed, "problem_id"),
        counts=supervised_counts(groups, warm_start) | difficulty.counts(),
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
