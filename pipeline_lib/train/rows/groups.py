"""Joins problems, sampled paths and verdicts into groups, the input of the builders."""

import itertools
import pathlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.records import Group, JudgedPath, Path, Problem
from pipeline_lib.store import shards
from pipeline_lib.verdicts import Verdict

PathKey = tuple[str, int]
"""Problem id and path index."""
Key = TypeVar("Key", str, PathKey)
Item = TypeVar("Item")


def join_groups(
    problem_rows: Iterable[Mapping[str, Any]],
    path_rows: Iterable[Mapping[str, Any]],
    verdict_rows: Iterable[Mapping[str, Any]],
) -> list[Group]:
    """One group per problem, in the order of the problems, with paths by index.

    Raises:
        CorruptArtifactError: the tables are inconsistent: a path without exactly one verdict,
            a verdict without a path, a problem without paths, or an unknown problem.
    """
    problems = _unique(
        (Problem.from_row(row) for row in problem_rows), "problem", lambda one: one.id
    )
    paths = _unique(
        (Path.from_row(row) for row in path_rows), "path", lambda one: (one.problem_id, one.index)
    )
    verdicts = _unique(verdict_rows, "verdict", lambda row: (row["problem_id"], row["index"]))
    _require_none("paths have no verdict", paths.keys() - verdicts.keys())
    _require_none("verdicts have no path", verdicts.keys() - paths.keys())
    members: dict[str, list[JudgedPath]] = {}
    for key in sorted(paths):
        judged = JudgedPath(path=paths[key], verdict=Verdict.from_row(verdicts[key]))
        members.setdefault(judged.path.problem_id, []).append(judged)
    _require_none("problems have no path", problems.keys() - members.keys())
    _require_none("problems of paths are unknown", members.keys() - problems.keys())
    return [Group(problem=problem, members=members[name]) for name, problem in problems.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable:
    """The groups of three sealed tables, read shard by shard on each pass."""

    problems: pathlib.Path
    paths: pathlib.Path
    verdicts: pathlib.Path

    def __iter__(self) -> Iterator[Group]:
        """The groups in the order of the problems; one shard is in memory.

        Raises:
            CorruptArtifactError: the tables are inconsistent; see :func:`join_groups`.
        """
        problem_rows = shards.iter_table(self.problems)
        path_shards, verdict_shards = map(shards.iter_shards, (self.paths, self.verdicts))
        for path_rows, verdict_rows in itertools.zip_longest(
            path_shards, verdict_shards, fillvalue=()
        ):
            # All paths of a problem are in one shard.
            number = len({row["problem_id"] for row in path_rows})
            yield from join_groups(itertools.islice(problem_rows, number), path_rows, verdict_rows)
        rest = {row["id"] for row in problem_rows}
        _require_none("problems have no path", rest)


def read_groups(problems: pathlib.Path, paths: pathlib.Path, verdicts: pathlib.Path) -> list[Group]:
    """All groups of three sealed tables; see :func:`join_groups`."""
    return list(GroupTable(problems=problems, paths=paths, verdicts=verdicts))


def problem_ids(groups: Iterable[Group]) -> set[str]:
    """The problems of ``groups``; of a table only their ids are read."""
    if isinstance(groups, GroupTable):
        return set(shards.read_column(groups.problems, "id"))
    return {group.problem.id for group in groups}


def pick_groups(groups: Iterable[Group], names: Container[str]) -> dict[str, Group]:
    """The groups of the problems ``names``, by problem."""
    return {group.problem.id: group for group in groups if group.problem.id in names}


def _unique(items: Iterable[Item], noun: str, key_of: Callable[[Item], Key]) -> dict[Key, Item]:
    keyed = [(key_of(item), item) for item in items]
    repeated: list[Key] = [
        key for key, count in Counter(key for key, _ in keyed).items() if count > 1
    ]
    _require_none(f"{noun}s are duplicated", {*repeated})
    return dict(keyed)


def _require_none(complaint: str, keys: Set[Key]) -> None:
    if keys:
        raise CorruptArtifactError(
            f"{len(keys)} {complaint} (first: {min(keys)}); run the stages sample and verify again"
        )
