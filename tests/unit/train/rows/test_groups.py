"""Joining problems, paths and verdicts: strict, because a wrong join is a wrong label."""

import random

import pytest

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.records import Group, Row
from pipeline_lib.store import shards
from pipeline_lib.train.rows.groups import GroupTable, join_groups, pick_groups, problem_ids
from tests.unit.train.rows.synthetic_groups import make_group

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


def write_tables(root, groups, *, shard_size):
    """The tables as a run writes them: paths and verdicts in shards of ``shard_size`` problems."""
    table = GroupTable(problems=root / "problems", paths=root / "paths", verdicts=root / "verdicts")
    problems = [group.problem.row() for group in groups]
    shards.write_table(table.problems, problems, kind="problems", key="k", shard_size=3)
    pieces = shards.split(groups, shard_size)
    for index, piece in enumerate(pieces):
        _, paths, verdicts = tables_of(piece)
        shards.write_shard(table.paths, index, paths, kind="paths", key="k")
        shards.write_shard(table.verdicts, index, verdicts, kind="verdicts", key="k")
    for folder in (table.paths, table.verdicts):
        shards.seal_table(folder, len(pieces), kind="any", key="k")
    return table


@pytest.mark.parametrize("shard_size", [1, 2, 5, 9])
def test_groups_of_tables_are_read_by_shards(tmp_path, shard_size):
    """7 problems in shards of any size give the same groups in their order, on each pass."""
    groups = [
        make_group(name, "rw" if number % 2 else "w") for number, name in enumerate("gcafbed")
    ]
    table = write_tables(tmp_path, groups, shard_size=shard_size)
    assert list(table) == groups
    assert list(table) == groups
    assert problem_ids(table) == problem_ids(groups) == set("abcdefg")
    assert pick_groups(table, {"f"}) == {"f": groups[3]}


def test_a_problem_beyond_the_shards_is_refused(tmp_path):
    """A problem without paths, after those of the last shard."""
    groups = [make_group(name, "rw") for name in "abcd"]
    table = write_tables(tmp_path, groups, shard_size=2)
    shards.seal_table(table.paths, 1, kind="any", key="k")
    shards.seal_table(table.verdicts, 1, kind="any", key="k")
    with pytest.raises(CorruptArtifactError, match=r"2 problems have no path \(first: c\)"):
        list(table)


def test_verdicts_beyond_the_paths_are_refused(tmp_path):
    """A shard of verdicts without one of paths."""
    table = write_tables(tmp_path, [make_group(name, "rw") for name in "ab"], shard_size=1)
    shards.seal_table(table.paths, 1, kind="any", key="k")
    with pytest.raises(CorruptArtifactError, match="verdicts have no path"):
        list(table)
