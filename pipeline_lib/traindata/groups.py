"""Joins problems, sampled paths and verdicts into groups, the input of the builders."""

import pathlib
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, TypeVar

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.records import Group, JudgedPath, Path, Problem
from pipeline_lib.storage import shards
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
    problems = _unique((Problem.from_row(row) for row in problem_rows), "problem", _problem_key)
    paths = _unique((Path.from_row(row) for row in path_rows), "path", _path_key)
    verdicts = _unique(verdict_rows, "verdict", _verdict_key)
    _require_none("paths have no verdict", paths.keys() - verdicts.keys())
    _require_none("verdicts have no path", verdicts.keys() - paths.keys())
    members: dict[str, list[JudgedPath]] = {}
    for key in sorted(paths):
        judged = JudgedPath(path=paths[key], verdict=Verdict.from_row(verdicts[key]))
        members.setdefault(judged.path.problem_id, []).append(judged)
    _require_none("problems have no path", problems.keys() - members.keys())
    _require_none("problems of paths are unknown", members.keys() - problems.keys())
    return [Group(problem=problem, members=members[name]) for name, problem in problems.items()]


def read_groups(problems: pathlib.Path, paths: pathlib.Path, verdicts: pathlib.Path) -> list[Group]:
    """The groups of three sealed tables; see :func:`join_groups`."""
    return join_groups(*(shards.iter_table(table) for table in (problems, paths, verdicts)))


def _problem_key(problem: Problem) -> str:
    return problem.id


def _path_key(path: Path) -> PathKey:
    return path.problem_id, path.index


def _verdict_key(row: Mapping[str, Any]) -> PathKey:
    return row["problem_id"], row["index"]


def _unique(items: Iterable[Item], noun: str, key_of: Callable[[Item], Key]) -> dict[Key, Item]:
    found: dict[Key, Item] = {}
    repeated: set[Key] = set()
    for item in items:
        key = key_of(item)
        if key in found:
            repeated.add(key)
        found[key] = item
    _require_none(f"{noun}s are duplicated", repeated)
    return found


def _require_none(complaint: str, keys: Set[Key]) -> None:
    if keys:
        raise CorruptArtifactError(
            f"{len(keys)} {complaint} (first: {min(keys)}); run the stages sample and verify again"
        )
