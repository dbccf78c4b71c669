"""SFT rows by rejection sampling: the distinct right paths of every solved problem.

Worked solutions are added, so that the policy does not forget other kinds of solution.
"""

from collections.abc import Sequence

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group, JudgedPath, Row
from pipeline_lib.train.rows.filters import (
    count_paths,
    deduplicate,
    filter_by_difficulty,
    is_complete,
    pass_rate,
    states_right_calculations,
)
from pipeline_lib.train.rows.tables import (
    MAIN_TABLE,
    WARM_START_TABLE,
    BuildContext,
    TrainData,
    group_lineage,
    path_lineage,
    shuffle_by_seed,
)


def build_supervised(groups: Sequence[Group], context: BuildContext) -> TrainData:
    """SFT rows; the difficulty bounds do not apply."""
    rows = make_supervised_rows(groups, context)
    return TrainData(
        rows_by_table={MAIN_TABLE[Method.SFT]: rows}, counts=count_supervised(groups, rows)
    )


def build_rollout_groups(groups: Sequence[Group], context: BuildContext) -> TrainData:
    """Online methods: problems within the difficulty bounds, and SFT rows of all solved problems.

    Stored groups are off-policy, so online methods sample their own; the stored ones select the problems and
    serve a warm start.
    """
    kept, counts = filter_by_difficulty(groups, context.params)
    warm_start = make_supervised_rows(groups, context)
    problems: list[Row] = [
        {
            "problem_id": group.problem.id,
            "prompt": context.render(group.problem),
            "pass_rate": pass_rate(group),
            "num_scored": len(group.scored()),
            **group_lineage(group),
            "verifier_version": context.verifier_version,
        }
        for group in kept
    ]
    return TrainData(
        rows_by_table={
            MAIN_TABLE[Method.GRPO]: shuffle_by_seed(problems, context.seed, "problem_id"),
            WARM_START_TABLE: warm_start,
        },
        counts=count_supervised(groups, warm_start) | counts,
    )


def make_supervised_rows(groups: Sequence[Group], context: BuildContext) -> list[Row]:
    """Rows {prompt, completion, lineage} of the complete, strictly right paths.

    If there are any, worked solutions are added, with empty lineage.
    """
    rows: list[Row] = [
        {
            "problem_id": group.problem.id,
            "prompt": context.render(group.problem),
            "completion": member.path.text,
            **path_lineage(member.path),
            "verifier_version": context.verifier_version,
        }
        for group in groups
        for member in _right_paths(group, context.params)
    ]
    if rows:
        rows += [
            dict.fromkeys(rows[0]) | row | {"path_id": f"{row['problem_id']}#worked-{number}"}
            for number, row in enumerate(context.worked)
        ]
    return shuffle_by_seed(rows, context.seed, "path_id")


def _right_paths(group: Group, params: BuildParams) -> list[JudgedPath]:
    right = [member for member in group.members if member.verdict.strict and is_complete(member)]
    if params.correct_paths == "right_calculations":
        right = [member for member in right if states_right_calculations(member.path.text)]
    if params.correct_paths == "shortest":
        right.sort(key=lambda member: (len(member.path.text), member.path.index))
        return right[:1]
    return deduplicate(right)


def count_supervised(groups: Sequence[Group], rows: Sequence[Row]) -> dict[str, int]:
    """Counts of paths, problems and rows."""
    drawn = [row for row in rows if row["model"] is not None]
    return count_paths(groups) | {
        "sft_rows": len(rows),
        "sft_problems": len({row["problem_id"] for row in drawn}),
        "sft_worked_rows": len(rows) - len(drawn),
    }
