"""Inputs of the curves from stored tables: problems without labels, and their labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.records import Group, JudgedPath
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.study.curves.estimates import (
    DrawnPaths,
    Label,
    Point,
    ProblemLabels,
    SearchedPaths,
    UnlabeledProblem,
)
from pipeline_lib.study.curves.path_measures import PathMeasure
from pipeline_lib.study.curves.search_records import read_cost
from pipeline_lib.study.selection import CandidatePath

Key = tuple[str, int]
"""Problem id and path index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTable:
    """Judged paths of the independent draw or of one search, with their label-free measures."""

    groups: Mapping[str, Group]
    """By problem."""
    measures: Mapping[Key, PathMeasure]
    costs: Mapping[Key, Cost]
    """Empty for the independent draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveInput:
    """The problems that have all paths required by every point."""

    problems: tuple[UnlabeledProblem, ...]
    labels: tuple[ProblemLabels, ...]
    num_left_out: int


def join_tables(
    groups: Iterable[Group],
    measures: Iterable[Mapping[str, Any]],
    costs: Iterable[Mapping[str, Any]] = (),
) -> PathTable:
    """Join the rows of the stored tables."""
    known = [PathMeasure.from_row(dict(row)) for row in measures]
    return PathTable(
        groups={group.problem.id: group for group in groups},
        measures={(one.problem_id, one.index): one for one in known},
        costs={(row["problem_id"], row["index"]): read_cost(row) for row in costs},
    )


def build_curve_input(
    drawn: PathTable,
    searches: Mapping[Point, PathTable],
    points: Sequence[Point],
    *,
    num_paths: int,
) -> CurveInput:
    """Separate every problem into its label-free input and its labels.

    Args:
        drawn: the independent paths.
        searches: the table that each point of a search is read from.
        points: points of the curves.
        num_paths: required independent paths per problem; problems with fewer scored paths, or
            without scored paths of a search, are left out.
    """
    problems: list[UnlabeledProblem] = []
    labels: list[ProblemLabels] = []
    for name, group in drawn.groups.items():
        members = sorted(group.scored(), key=lambda one: one.path.index)[:num_paths]
        parts = {
            point: _part(searches[point], name, point) for point in points if point in searches
        }
        if len(members) < num_paths or not all(parts.values()):
            continue
        problems.append(
            UnlabeledProblem(
                id=name,
                drawn=DrawnPaths(
                    candidates=tuple(_candidate(one, drawn) for one in members),
                    prompt_tokens=members[0].path.prompt_tokens,
                ),
                found={
                    point: SearchedPaths(
                        candidates=tuple(_candidate(one, searches[point]) for one in part),
                        cost=_cost(searches[point], name, point),
                    )
                    for point, part in parts.items()
                },
            )
        )
        labels.append(
            ProblemLabels(
                drawn=tuple(map(_label, members)),
                found={point: tuple(map(_label, part)) for point, part in parts.items()},
            )
        )
    return CurveInput(
        problems=tuple(problems),
        labels=tuple(labels),
        num_left_out=len(drawn.groups) - len(problems),
    )


def _part(searched: PathTable, name: str, point: Point) -> list[JudgedPath]:
    """The scored paths of a search at a point."""
    strategy, budget = point
    most = 1 if strategy is Strategy.BEAM else budget
    if name not in searched.groups:
        raise BadInputError(f"problem {name!r} was drawn but not searched; run the command again")
    return [one for one in searched.groups[name].scored() if one.path.index < most]


def _cost(searched: PathTable, name: str, point: Point) -> Cost:
    strategy, budget = point
    return searched.costs[name, 0 if strategy is Strategy.BEAM else budget - 1]


def _candidate(member: JudgedPath, source: PathTable) -> CandidatePath:
    path = member.path
    measure = source.measures[path.problem_id, path.index]
    return CandidatePath(
        answer=measure.answer,
        tokens=path.completion_tokens,
        logprob=path.logprob,
        self_certainty=measure.self_certainty,
    )


def _label(member: JudgedPath) -> Label:
    return Label(strict=bool(member.verdict.strict), lenient=bool(member.verdict.lenient))
