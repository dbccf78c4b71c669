"""Accuracy against cost of every arm of several evaluations, on the problems that all of them have."""

import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.attempts import MAIN, Cost
from pipeline_lib.study.names import ACCURACIES
from pipeline_lib.study.pages.cost_figures import AXES
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.stored import (
    Evaluation,
    ProblemKey,
    StoredSeries,
    evaluation_folders,
    read_evaluation,
)
from pipeline_lib.study.study import ALL, METRICS_NAME, LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """The accuracy of an arm on the common problems, and its mean cost."""

    label: str
    """System and arm, and the workspace where two have the system."""
    system: str
    arm: str
    measure: str
    folder: str
    score: Interval
    cost: Cost
    upper_bound: bool
    pareto: tuple[str, ...] = ()
    """Costs of `AXES` at no more of which no other arm is as accurate."""

    def row(self) -> dict[str, Any]:
        """Flat form."""
        return {
            **{name: getattr(self, name) for name in _NAMES},
            **self.score.row(),
            **asdict(self.cost),
            "total": self.cost.total,
            "pareto": list(self.pareto),
        }


_NAMES = ("label", "system", "arm", "measure", "folder", "upper_bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The arms on the common problems, the most accurate first."""

    systems: tuple[str, ...]
    """Labels of the evaluations."""
    n: int
    """Common problems."""
    level: float
    """Confidence of the intervals."""
    points: tuple[FrontierPoint, ...]
    left_out: tuple[LeftOut, ...]
    """Arms, each with the number of problems that is the reason."""

    def row(self) -> dict[str, Any]:
        """The content of frontier.json."""
        return {
            "systems": list(self.systems),
            "n": self.n,
            "level": self.level,
            "points": [one.row() for one in self.points],
            "left_out": [asdict(one) for one in self.left_out],
        }


def read_evaluations(paths: Sequence[pathlib.Path]) -> dict[str, Evaluation]:
    """The evaluations of workspaces, or in folders like ``reports/SYSTEM``, by label.

    Raises:
        BadInputError: a path holds none.
        CorruptArtifactError: a table differs from its manifest.
    """
    places = dict.fromkeys(place for path in paths for place in _places(path))
    read = {place: read_evaluation(place) for place in places}
    systems = [one.study.system for one in read.values()]
    workspaces = {
        place: place.parents[1] if place.parent.name == "reports" else place for place in read
    }
    names = [one.name for one in dict.fromkeys(workspaces.values())]
    labels = {}
    for place, one in read.items():
        root, system = workspaces[place], one.study.system
        name = root.name if names.count(root.name) == 1 else str(root)
        labels[system if systems.count(system) == 1 else f"{name} {system}"] = one
    return labels


def _places(path: pathlib.Path) -> list[pathlib.Path]:
    """The folder itself, or every reports/SYSTEM below it."""
    if (path / METRICS_NAME).is_file():
        return [path]
    found = evaluation_folders(path)
    if not found:
        raise BadInputError(
            f"{path}: has no reports/SYSTEM/{METRICS_NAME} of this version; evaluate a system there first"
        )
    return found


def make_frontier(
    evaluations: Mapping[str, Evaluation], params: EvaluateParams, *, seed: int
) -> Frontier:
    """Compare all arms on the problems that every evaluation has.

    An arm that lacks one of them, or whose training saw one, is left out.

    Args:
        evaluations: by label.
        params: resamples and confidence_level.
        seed: root seed of the intervals.

    Raises:
        BadInputError: two evaluations share no problem, or no arm remains.
    """
    arms = {label: _accuracies(one) for label, one in evaluations.items()}
    common = _common({label: series for label, series in arms.items() if series}, evaluations)
    points = []
    left_out = list(_without_accuracy(evaluations, arms))
    for label, one in ((label, one) for label, series in arms.items() for one in series):
        fault = _fault(one, f"{label}: {one.arm}", common)
        if fault is None:
            points.append(_point(one, label, evaluations[label], common, params, seed=seed))
        else:
            left_out.append(fault)
    if not points:
        reasons = "; ".join(f"{one.reason} ({one.n})" for one in left_out)
        raise BadInputError(f"no arm remains on {len(common)} common problems: {reasons}")
    return Frontier(
        systems=tuple(evaluations),
        n=len(common),
        level=params.confidence_level,
        points=tuple(sorted(with_pareto(points), key=lambda one: -one.score.value)),
        left_out=tuple(left_out),
    )


def _accuracies(evaluation: Evaluation) -> list[StoredSeries]:
    """One accuracy of each arm, if it has costs."""
    costly = {
        (one.arm, one.measure, one.subset, one.set)
        for one in evaluation.study.points
        if one.cost is not None
    }
    found: dict[str, StoredSeries] = {}
    for measure in ACCURACIES:
        for one in evaluation.series:
            name = (one.arm, measure, ALL, MAIN)
            if name == (one.arm, one.measure, one.subset, one.set) and name in costly:
                found.setdefault(one.arm, one)
    return [*found.values()]


def _common(
    arms: Mapping[str, Sequence[StoredSeries]], evaluations: Mapping[str, Evaluation]
) -> list[ProblemKey]:
    """Problems of all, in the order of the first evaluation."""
    problems = {
        label: dict.fromkeys(key for one in series for key in one.values)
        for label, series in arms.items()
    }
    first, *others = problems.values() or [{}]
    common = [key for key in first if all(key in one for one in others)]
    if not common:
        apart = [
            pair
            for pair in itertools.combinations(problems, 2)
            if problems[pair[0]].keys().isdisjoint(problems[pair[1]])
        ]
        labels = [*apart, tuple(problems or evaluations)][0]
        named = " and ".join(f"{one} ({evaluations[one].folder})" for one in labels)
        reason = "no problem in common" if problems else "no arm has an accuracy with costs"
        raise BadInputError(f"{named}: {reason}; leave one of them out")
    return common


def _without_accuracy(
    evaluations: Mapping[str, Evaluation], arms: Mapping[str, Sequence[StoredSeries]]
) -> Iterator[LeftOut]:
    for label, one in evaluations.items():
        missing = len(one.study.arms) - len(arms[label])
        if missing:
            yield LeftOut(reason=f"{label}: arms without an accuracy that has costs", n=missing)


def _fault(series: StoredSeries, named: str, common: Sequence[ProblemKey]) -> LeftOut | None:
    """Why an arm is left out, with the number of problems."""
    if lacking := sum(key not in series.values for key in common):
        return LeftOut(reason=f"{named} lacks common problems", n=lacking)
    if seen := len(series.seen.intersection(common)):
        return LeftOut(reason=f"{named} was trained on common problems", n=seen)
    return None


def _point(
    series: StoredSeries,
    label: str,
    evaluation: Evaluation,
    common: Sequence[ProblemKey],
    params: EvaluateParams,
    *,
    seed: int,
) -> FrontierPoint:
    named = f"{label}: {series.arm}"
    values_P = np.array([series.values[key] for key in common], dtype=np.float64)
    return FrontierPoint(
        label=named,
        system=evaluation.study.system,
        arm=series.arm,
        measure=series.measure,
        folder=str(evaluation.folder),
        upper_bound=series.upper_bound,
        score=score_interval(values_P, params, seed=child_seed(seed, "frontier", named)),
        cost=Cost.mean([series.costs[key] for key in common]),
    )


def with_pareto(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Each point with the costs for which it is in the Pareto set; upper bounds are in none."""
    rivals = [one for one in points if not one.upper_bound]
    return [
        replace(
            one,
            pareto=tuple(
                axis
                for axis, of in AXES.items()
                if not one.upper_bound and not any(_dominates(other, one, of) for other in rivals)
            ),
        )
        for one in points
    ]


def _dominates(other: FrontierPoint, one: FrontierPoint, of: Callable[[Cost], float]) -> bool:
    """At least as accurate at no more cost, and better in one of both."""
    theirs, own = (other.score.value, -of(other.cost)), (one.score.value, -of(one.cost))
    return theirs != own and theirs[0] >= own[0] and theirs[1] >= own[1]
