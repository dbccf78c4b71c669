"""SFT rows by rejection sampling: the distinct right paths of every solved problem.

Worked solutions are added, so that the policy does not forget other kinds of solution.
"""

from collections.abc import Sequence

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.records import Group, JudgedPath, Row
from pipeline_lib.train.rows.calculations import states_right_calculations
from pipeline_lib.train.rows.filters import count_paths, deduplicate, is_complete
from pipeline_lib.train.rows.lineage import path_lineage
from pipeline_lib.train.rows.tables import BuildContext, Tables, shuffle_by_seed


def build_supervised(groups: Sequence[Group], context: BuildContext) -> Tables:
    """SFT rows; the difficulty bounds do not apply."""
    rows = make_supervised_rows(groups, context)
    return Tables(rows=rows, counts=count_supervised(groups, rows))


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
        rows += _worked_rows(context.worked, rows[0])
    return shuffle_by_seed(rows, context.seed, "path_id")


def _worked_rows(worked: Sequence[Row], like: Row) -> list[Row]:
    return [
        dict.fromkeys(like) | row | {"path_id": f"{row['problem_id']}#worked-{number}"}
        for number, row in enumerate(worked)
    ]


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
