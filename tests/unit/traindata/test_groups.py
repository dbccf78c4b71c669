"""Joining problems, paths and verdicts: strict, because a wrong join is a wrong label."""

import random

import pytest

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.records import Group, Row
from pipeline_lib.traindata.groups import join_groups
from tests.unit.traindata.synthetic_groups import make_group

GROUPS = [make_group("b", "rw"), make_group("a", "wwr")]


def tables_of(groups: list[Group]) -> tuple[list[Row], list[Row], list[Row]]:
    members = [member for group in groups for member in group.members]
    verdicts = [
        {"problem_id": m.path.problem_id, "index": m.path.index} | m.verdict.row() for m in members
    ]
    return [group.problem.row() for group in groups], [m.path.row() for m in members], verdicts


def test_groups_come_back_in_problem_order():
    """Rows of paths and verdicts in any order give the groups that they were made of."""
    problems, paths, verdicts = tables_of(GROUPS)
    random.Random(0).shuffle(paths)
    random.Random(1).shuffle(verdicts)
    assert join_groups(problems, paths, verdicts) == GROUPS


def test_ten_paths_are_ordered_as_numbers():
    """Index 10 comes after index 9, not after index 1."""
    groups = [make_group("a", "rwrwrwrwrwrw")]
    joined = join_groups(*tables_of(groups))
    assert [member.path.index for member in joined[0].members] == list(range(12))


@pytest.mark.parametrize(
    ("table", "change", "complaint"),
    [
        (2, lambda rows: rows.pop(), r"1 paths have no verdict \(first: \('a', 2\)\)"),
        (1, lambda rows: rows.pop(), r"1 verdicts have no path \(first: \('a', 2\)\)"),
        (2, lambda rows: rows.append(rows[0]), r"1 verdicts are duplicated \(first: \('b', 0\)\)"),
        (1, lambda rows: rows.append(rows[0]), r"1 paths are duplicated \(first: \('b', 0\)\)"),
        (0, lambda rows: rows.append(rows[0]), r"1 problems are duplicated \(first: b\)"),
        (0, lambda rows: rows.pop(), r"1 problems of paths are unknown \(first: a\)"),
        (0, lambda rows: rows.append(rows[0] | {"id": "c"}), r"1 problems have no path.*: c\)"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(table: int, change, complaint: str):
    """Any row too many or too few, in any table, is an error that names the first one."""
    tables = tables_of(GROUPS)
    change(tables[table])
    with pytest.raises(CorruptArtifactError, match=complaint):
        join_groups(*tables)
