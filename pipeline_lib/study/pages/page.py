"""report.html of a study: one file without scripts or requests, readable on a phone. Model output is escaped.

Every system's page begins alike: what was gained and over which control, what the run was too small to show, the
paper, and the terms. Then come figures, tables and examples.
"""

import base64
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import jinja2

from pipeline_lib.store.files import write_text
from pipeline_lib.study.attempts import MAIN
from pipeline_lib.study.names import SUBSETS, definitions
from pipeline_lib.study.pages.cost_figures import cost_figures
from pipeline_lib.study.pages.figures import Plot
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import (
    EMPTY,
    count,
    difference,
    p_equation,
    p_value,
    percent,
    score,
)
from pipeline_lib.study.study import ALL, Point, Study

REPORT_NAME = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """The published method."""

    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """One text of an example."""

    text: str
    outcome: str = ""
    """``correct``, ``wrong`` or ``discarded``; empty: neither."""
    about: tuple[str, ...] = ()
    """Short facts about it."""
    depth: int = 0
    """Indentation: of a thread below its parent."""
    prompt: str = ""
    """Shown when it is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTexts:
    """Texts below one title: an arm, a round, a peer."""

    title: str
    texts: Sequence[ShownText]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A problem with what the arms wrote."""

    id: str
    tag: str = ""
    """``gained`` or ``lost``; empty: neither."""
    question: str = ""
    gold: str = ""
    groups: Sequence[ShownTexts] = ()
    picture: Plot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part of a page, below its main tables and figures."""

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()

    @property
    def anchor(self) -> str:
        """Name of the link to it."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a page besides its study."""

    title: str
    """Short name of the system."""
    paper: Paper | None = None
    """None for a page over several evaluations, which has no method, seed and params of its own."""
    notes: Sequence[str] = ()
    """Sentences about the method of this evaluation."""
    figures_by: str | None = None
    """Setting by which the figures of accuracy against cost are divided."""
    plots: Sequence[Plot] = ()
    first_tables: Sequence[Table] = ()
    """Before those of the study."""
    tables: Sequence[Table] = ()
    sections: Sequence[Section] = ()
    examples: Sequence[Example] = ()


def _template() -> jinja2.Template:
    """With escaped model output, and no missing variables."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "difference": difference,
        "p_equation": p_equation,
        "data_uri": lambda svg: (
            f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
        ),
    }
    return environment.get_template("page.html.j2")


def write_page(path: pathlib.Path, study: Study, page: Page) -> None:
    """Write the page."""
    headline, *claims = study.claims or (page.title,)
    main = study.headline
    terms = definitions(
        [*(one.name for one in study.arms), *(point.measure for point in study.points)]
    )
    subsets = {one.subset for one in study.points} | {one.subset for one in study.differences}
    terms |= {name: text for name, text in SUBSETS.items() if name in subsets - {ALL}}
    write_text(
        path,
        _template().render(
            page=page,
            study=study,
            headline=headline,
            claims=claims,
            compared=definitions([main.arm, main.reference]) if main else {},
            terms=terms,
            plots=[*cost_figures(study, by=page.figures_by), *page.plots],
            tables=[*page.first_tables, *study_tables(study), *page.tables],
        ),
    )


def study_tables(study: Study) -> list[Table]:
    """Tables of a study: differences, points with their costs, and what was left out."""
    return [*_difference_tables(study), *_point_tables(study), *_left_out(study)]


def _difference_tables(study: Study) -> Iterator[Table]:
    if study.differences:
        yield Table(
            caption=f"Differences in points, with {100 * study.level:g} % intervals, on the problems of both arms",
            columns=("arm", "minus", "measure", "difference", "p", "finding", "problems"),
            rows=tuple(
                (
                    one.arm,
                    one.reference,
                    _measured(one.measure, one.subset, one.set),
                    difference(one.interval),
                    p_value(one.p if one.p_adjusted is None else one.p_adjusted),
                    one.finding.value,
                    count(one.n),
                )
                for one in study.differences
            ),
        )


def _point_tables(study: Study) -> Iterator[Table]:
    bounds = {one.name for one in study.arms if one.upper_bound}
    costly = [one for one in study.points if one.cost is not None]
    free = [one for one in study.points if one.cost is None]
    if costly:
        yield Table(
            caption=f"Scores with {100 * study.level:g} % intervals, and tokens per problem",
            columns=(
                *("arm", "measure", "score", "drawn", "prompt", "critical path", "longest"),
                "problems",
            ),
            rows=tuple((*_row(one, bounds), *_costs(one), count(one.n)) for one in costly),
        )
    if free:
        yield Table(
            caption=f"Further scores with {100 * study.level:g} % intervals",
            columns=("arm", "measure", "score", "problems"),
            rows=tuple((*_row(one, bounds), count(one.n)) for one in free),
        )


def _row(point: Point, bounds: Iterable[str]) -> tuple[str, str, str]:
    name = f"{point.arm} (upper bound)" if point.arm in bounds else point.arm
    return name, _measured(point.measure, point.subset, point.set), score(point.interval)


def _costs(point: Point) -> tuple[str, ...]:
    cost = point.cost
    if cost is None:
        return (EMPTY,) * 4
    return tuple(f"{value:.0f}" for value in (cost.drawn, cost.prompt, cost.critical, cost.longest))


def _measured(measure: str, subset: str, set_name: str) -> str:
    named = [
        measure,
        *([subset] if subset != ALL else []),
        *([set_name] if set_name != MAIN else []),
    ]
    return ", ".join(named)


def _left_out(study: Study) -> Iterator[Table]:
    if study.left_out:
        yield Table(
            caption="Left out of all figures",
            columns=("why", "number"),
            rows=tuple((one.reason, count(one.n)) for one in study.left_out),
        )
