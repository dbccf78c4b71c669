"""SFT rows by rejection sampling: the distinct right paths of every problem that has any.

Worked solutions join them: a policy that reads only what it solves itself forgets other ways to solve.
"""

from collections.abc import Sequence

from pipeline_lib.records import Group, JudgedPath, Row
from pipeline_lib.traindata.filters import distinct, ended, path_counts
from pipeline_lib.traindata.lineage import path_lineage
from pipeline_lib.traindata.tables import BuildContext, Tables, in_seeded_order


def build_supervised(groups: Sequence[Group], context: BuildContext) -> Tables:
    """SFT rows. The difficulty bounds do not apply: what is always solved is kept, too."""
    rows = supervised_rows(groups, context)
    return Tables(rows=rows, counts=supervised_counts(groups, rows))


def supervised_rows(groups: Sequence[Group], context: BuildContext) -> list[Row]:
    """Rows {prompt, completion, lineage} of the strictly right paths that ended by themselves.

    If there is any, worked solutions join them, without lineage: no policy drew them.
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
        for member in _right_paths(group, shortest=context.params.correct_paths == "shortest")
    ]
    if rows:
        rows += _worked_rows(context.worked, rows[0])
    return in_seeded_order(rows, context.seed, "path_id")


def _worked_rows(worked: Sequence[Row], like: Row) -> list[Row]:
    return [
        dict.fromkeys(like) | row | {"path_id": f"{row['problem_id']}#worked-{number}"}
        for number, row in enumerate(worked)
    ]


def _right_paths(group: Group, *, shortest: bool) -> list[JudgedPath]:
    right = [member for member in group.members if member.verdict.strict and ended(member)]
    if shortest:
        right.sort(key=lambda member: (len(member.path.text), member.path.index))
        return right[:1]
    return distinct(right)


def supervised_counts(groups: Sequence[Group], rows: Sequence[Row]) -> dict[str, int]:
    """How many rows came of how many paths and problems."""
    drawn = [row for row in rows if row["model"] is not None]
    return path_counts(groups) | {
        "sft_rows": len(rows),
        "sft_problems": len({row["problem_id"] for row in drawn}),
        "sft_worked_rows": len(rows) - len(drawn),
    }
