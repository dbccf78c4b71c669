"""From stored tables to what the curves are made of: problems without labels, and their labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.evaluation.curves.estimates import (
    Drawn,
    Found,
    Label,
    ProblemCompute,
    ProblemLabels,
)
from pipeline_lib.evaluation.curves.path_measures import PathMeasure
from pipeline_lib.evaluation.curves.result import Point
from pipeline_lib.evaluation.curves.search_records import cost_from
from pipeline_lib.evaluation.selection.selectors import Candidate
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.records import Group, JudgedPath
from pipeline_lib.sampling.compute_cost import Cost

Key = tuple[str, int]
"""Problem id and index of a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The judged paths of the draw or of one search, with what is known of them beside labels."""

    groups: Mapping[str, Group]
    """By problem."""
    measures: Mapping[Key, PathMeasure]
    costs: Mapping[Key, Cost]
    """Of a search only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveInput:
    """All problems that have what every point needs."""

    problems: tuple[ProblemCompute, ...]
    labels: tuple[ProblemLabels, ...]
    num_left_out: int


def table(
    groups: Iterable[Group],
    measures: Iterable[Mapping[str, Any]],
    costs: Iterable[Mapping[str, Any]] = (),
) -> Table:
    """Put the rows of the stored tables together."""
    known = [PathMeasure.from_row(dict(row)) for row in measures]
    return Table(
        groups={group.problem.id: group for group in groups},
        measures={(one.problem_id, one.index): one for one in known},
        costs={(row["problem_id"], row["index"]): cost_from(row) for row in costs},
    )


def curve_input(
    drawn: Table, searches: Mapping[Point, Table], points: Sequence[Point], *, num_paths: int
) -> CurveInput:
    """Split every problem into what strategies see and what scores them.

    Args:
        drawn: the independent paths.
        searches: the table that each point of a search is read from.
        points: of the curves.
        num_paths: independent paths that a problem needs; one with fewer that our side drew and
            judged is left out, as is one of which a search has none.
    """
    problems: list[ProblemCompute] = []
    labels: list[ProblemLabels] = []
    for name, group in drawn.groups.items():
        members = sorted(group.scored(), key=lambda one: one.path.index)[:num_paths]
        parts = {
            point: _part(searches[point], name, point) for point in points if point in searches
        }
        if len(members) < num_paths or not all(parts.values()):
            continue
        problems.append(
            ProblemCompute(
                id=name,
                drawn=Drawn(
                    candidates=tuple(_candidate(one, drawn) for one in members),
                    prompt_tokens=members[0].path.prompt_tokens,
                ),
                found={
                    point: Found(
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


def _part(searched: Table, name: str, point: Point) -> list[JudgedPath]:
    """The scored paths that a search has at a point."""
    strategy, budget = point
    most = 1 if strategy is Strategy.BEAM else budget
    if name not in searched.groups:
        raise BadInputError(f"problem {name!r} was drawn but not searched; run the command again")
    return [one for one in searched.groups[name].scored() if one.path.index < most]


def _cost(searched: Table, name: str, point: Point) -> Cost:
    strategy, budget = point
    return searched.costs[name, 0 if strategy is Strategy.BEAM else budget - 1]


def _candidate(member: JudgedPath, source: Table) -> Candidate:
    path = member.path
    measure = source.measures[path.problem_id, path.index]
    return Candidate(
        answer=measure.answer,
        tokens=path.completion_tokens,
        logprob=path.logprob,
        self_certainty=measure.self_certainty,
    )


def _label(member: JudgedPath) -> Label:
    return Label(strict=bool(member.verdict.strict), lenient=bool(member.verdict.lenient))
