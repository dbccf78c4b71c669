"""Accuracy against cost of every arm of several evaluations, on the problems that all of them have."""

import csv
import io
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.study.attempts import MAIN, Cost
from pipeline_lib.study.pages.cost_figures import AXES, CostPoint, family_of, plot_costs
from pipeline_lib.study.pages.page import REPORT_NAME, Page, study_tables, write_page
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import score
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.stored import (
    Evaluation,
    ProblemKey,
    StoredSeries,
    evaluation_folders,
    read_evaluation,
)
from pipeline_lib.study.study import ALL, METRICS_NAME, LeftOut, Study, accuracies, bare_study

NAME = "frontier"
_MARK = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The arms on the common problems, the most accurate first."""

    systems: tuple[str, ...]
    """Labels of the evaluations."""
    n: int
    """Common problems."""
    points: tuple[CostPoint, ...]
    study: Study
    """The claims, and the arms that were left out, each with the number of problems that is the reason."""

    @property
    def tables(self) -> list[Table]:
        """The arms, the most accurate first; then what was left out."""
        caption = (
            f"Accuracy with {100 * self.study.level:g} % intervals, and cost per problem in tokens; "
            f"{_MARK}: in the Pareto set for this cost"
        )
        columns = ("arm", "accuracy", "drawn", "total", "critical path", "longest")
        rows = tuple(map(_cells, self.points))
        return [Table(caption=caption, columns=columns, rows=rows), *study_tables(self.study)]


def read_evaluations(paths: Sequence[pathlib.Path]) -> dict[str, Evaluation]:
    """The evaluations of workspaces, or in folders like ``reports/SYSTEM``, by label.

    Raises:
        BadInputError: a path holds none.
        CorruptArtifactError: a table differs from its manifest.
    """
    read = {place: read_evaluation(place) for path in paths for place in _places(path)}
    systems = [one.study.system for one in read.values()]
    roots = {place: place.parents[1] if place.parent.name == "reports" else place for place in read}
    names = [one.name for one in {*roots.values()}]
    labels = {}
    for place, one in read.items():
        root, system = roots[place], one.study.system
        name = root.name if names.count(root.name) == 1 else str(root)
        labels[system if systems.count(system) == 1 else f"{name} {system}"] = one
    return labels


def _places(path: pathlib.Path) -> list[pathlib.Path]:
    """The folder itself, or every reports/SYSTEM below it."""
    found = [path] if (path / METRICS_NAME).is_file() else evaluation_folders(path)
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
    points, left_out = [], []
    for label, one in evaluations.items():
        if missing := len(one.study.arms) - len(arms[label]):
            reason = f"{label}: arms without an accuracy that has costs"
            left_out.append(LeftOut(reason=reason, n=missing))
    for label, series in ((label, one) for label, found in arms.items() for one in found):
        named = f"{label}: {series.arm}"
        if lacking := sum(key not in series.values for key in common):
            left_out.append(LeftOut(reason=f"{named} lacks common problems", n=lacking))
        elif seen := len(series.seen.intersection(common)):
            left_out.append(LeftOut(reason=f"{named} was trained on common problems", n=seen))
        else:
            points.append(_point(series, named, evaluations[label], common, params, seed=seed))
    if not points:
        reasons = "; ".join(f"{one.reason} ({one.n})" for one in left_out)
        raise BadInputError(f"no arm remains on {len(common)} common problems: {reasons}")
    study = bare_study(
        NAME,
        _claims(points, f"the same {len(common)} problems: {', '.join(evaluations)}"),
        params,
        seed=seed,
        arms=tuple(arm for one in evaluations.values() for arm in one.study.arms),
        left_out=tuple(left_out),
    )
    return Frontier(
        systems=tuple(evaluations),
        n=len(common),
        points=tuple(sorted(_with_pareto(points), key=lambda one: -one.score.value)),
        study=study,
    )


def _claims(points: Sequence[CostPoint], compared_on: str) -> Iterator[str]:
    """The title, and what the Pareto set is."""
    yield f"Accuracy against cost on {compared_on}"
    bounded = any(one.upper_bound for one in points)
    bound = "; upper bounds need the label and are in none" if bounded else ""
    yield (
        f"{_MARK} An arm is in the Pareto set for a cost if no other arm is as accurate at no more of it{bound}. "
        "The set is of the estimates: where intervals overlap, chance can decide."
    )


def _accuracies(evaluation: Evaluation) -> list[StoredSeries]:
    """One accuracy of each arm, if it has costs."""
    stored = {
        (one.arm, one.measure): one
        for one in evaluation.series
        if (one.subset, one.set) == (ALL, MAIN)
    }
    wanted = (
        (one.arm, one.measure) for one in accuracies(evaluation.study).values() if one.set == MAIN
    )
    return [stored[name] for name in wanted if name in stored]


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


def _point(
    series: StoredSeries,
    named: str,
    evaluation: Evaluation,
    common: Sequence[ProblemKey],
    params: EvaluateParams,
    *,
    seed: int,
) -> CostPoint:
    values_P = np.array([series.values[key] for key in common], dtype=np.float64)
    return CostPoint(
        family=family_of(named),
        label=named,
        score=score_interval(values_P, params, seed=child_seed(seed, NAME, named)),
        cost=Cost.mean([series.costs[key] for key in common]),
        upper_bound=series.upper_bound,
        source={
            "system": evaluation.study.system,
            "arm": series.arm,
            "measure": series.measure,
            "folder": str(evaluation.folder),
        },
    )


def _with_pareto(points: Sequence[CostPoint]) -> list[CostPoint]:
    """Each point with the costs for which it is in the Pareto set; upper bounds are in none."""
    rivals = [one for one in points if not one.upper_bound]

    def axes(one: CostPoint) -> Iterator[str]:
        for axis, of in AXES.items():
            if not one.upper_bound and not any(_dominates(other, one, of) for other in rivals):
                yield axis

    return [replace(one, pareto=tuple(axes(one))) for one in points]


def _dominates(other: CostPoint, one: CostPoint, of: Callable[[Cost], float]) -> bool:
    """At least as accurate at no more cost, and better in one of both."""
    theirs, own = (other.score.value, -of(other.cost)), (one.score.value, -of(one.cost))
    return theirs != own and theirs[0] >= own[0] and theirs[1] >= own[1]


def _cells(point: CostPoint) -> tuple[str, ...]:
    costs = (
        f"{of(point.cost):.0f}{f' {_MARK}' if axis in point.pareto else ''}"
        for axis, of in AXES.items()
    )
    name = f"{point.label} (upper bound)" if point.upper_bound else point.label
    return name, score(point.score), *costs, f"{point.cost.longest:.0f}"


def write_frontier(folder: pathlib.Path, frontier: Frontier) -> None:
    """Write frontier.json, frontier.csv and the page."""
    study, points = frontier.study, [*map(_row, frontier.points)]
    content = {
        "systems": list(frontier.systems),
        "n": frontier.n,
        "level": study.level,
        "points": points,
        "left_out": [asdict(one) for one in study.left_out],
    }
    write_json(folder / f"{NAME}.json", content)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=[*points[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {"pareto": "; ".join(row["pareto"])} for row in points)
    write_text(folder / f"{NAME}.csv", stream.getvalue())
    plots = plot_costs(frontier.points, name=NAME)
    page = Page(title="accuracy against cost", plots=plots, tables=frontier.tables)
    write_page(folder / REPORT_NAME, replace(study, left_out=()), page)


def _row(point: CostPoint) -> dict[str, Any]:
    """Flat form."""
    return {
        "label": point.label,
        **point.source,
        "upper_bound": point.upper_bound,
        **point.score.row(),
        **asdict(point.cost),
        "total": point.cost.total,
        "pareto": list(point.pareto),
    }
