"""frontier.json, frontier.csv and the page of a frontier."""

import csv
import importlib.metadata
import io
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.study.frontier import Frontier, FrontierPoint
from pipeline_lib.study.pages.cost_figures import AXES, CostPoint, family_of, plot_costs
from pipeline_lib.study.pages.page import REPORT_NAME, Page, study_tables, write_page
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import score
from pipeline_lib.study.stored import Evaluation
from pipeline_lib.study.study import Study

NAME = "frontier"
_MARK = "*"


def frontier_study(
    frontier: Frontier, evaluations: Mapping[str, Evaluation], *, seed: int
) -> Study:
    """The head of the page: title, what the Pareto set is, what was left out."""
    bounded = any(one.upper_bound for one in frontier.points)
    bound = "; upper bounds need the label and are in none" if bounded else ""
    meaning = (
        f"{_MARK} An arm is in the Pareto set for a cost if no other arm is as accurate at no more of it{bound}. "
        "The set is of the estimates: where intervals overlap, chance can decide."
    )
    return Study(
        system=NAME,
        seed=seed,
        level=frontier.level,
        provenance={"version": importlib.metadata.version("reasonloop")},
        arms=tuple(arm for one in evaluations.values() for arm in one.study.arms),
        points=(),
        differences=(),
        left_out=frontier.left_out,
        claims=(
            f"Accuracy against cost on the same {frontier.n} problems: {', '.join(frontier.systems)}",
            meaning,
        ),
    )


def frontier_tables(frontier: Frontier, study: Study) -> list[Table]:
    """The arms, the most accurate first; then what was left out."""
    caption = (
        f"Accuracy with {100 * frontier.level:g} % intervals, and cost per problem in tokens; "
        f"{_MARK}: in the Pareto set for this cost"
    )
    columns = ("arm", "accuracy", "drawn", "total", "critical path", "longest")
    rows = tuple(map(_row, frontier.points))
    return [Table(caption=caption, columns=columns, rows=rows), *study_tables(study)]


def _row(point: FrontierPoint) -> tuple[str, ...]:
    costs = (
        f"{of(point.cost):.0f}{f' {_MARK}' if axis in point.pareto else ''}"
        for axis, of in AXES.items()
    )
    return (
        f"{point.label} (upper bound)" if point.upper_bound else point.label,
        score(point.score),
        *costs,
        f"{point.cost.longest:.0f}",
    )


def write_frontier(folder: pathlib.Path, frontier: Frontier, study: Study) -> None:
    """Write frontier.json, frontier.csv and the page."""
    write_json(folder / f"{NAME}.json", frontier.row())
    write_text(folder / f"{NAME}.csv", _csv(frontier.points))
    points = [
        CostPoint(
            family=family_of(one.label),
            label=one.label,
            score=one.score,
            cost=one.cost,
            upper_bound=one.upper_bound,
            pareto=one.pareto,
        )
        for one in frontier.points
    ]
    page = Page(
        title="accuracy against cost",
        plots=plot_costs(points, name=NAME),
        tables=frontier_tables(frontier, study),
    )
    write_page(folder / REPORT_NAME, replace(study, left_out=()), page)


def _csv(points: Sequence[FrontierPoint]) -> str:
    rows = [one.row() | {"pareto": "; ".join(one.pareto)} for one in points]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=[*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
