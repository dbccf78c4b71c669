"""Figures of accuracy against costs: the points of an arm's family joined by a line."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from pipeline_lib.records import Interval
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.pages.figures import INK, STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.wording import percent
from pipeline_lib.study.study import Setting, Study, accuracies

AXES: Mapping[str, Callable[[Cost], float]] = {
    "drawn tokens": lambda cost: cost.drawn,
    "drawn and prompt tokens": lambda cost: cost.total,
    "critical path in tokens": lambda cost: cost.critical,
}
"""Costs that accuracy is drawn against, per problem."""
_SIZE_INCHES = (4.8, 4.6)
"""With a legend of at most `_LEGEND_ROWS` rows; each further one makes the figure higher."""
_LEGEND_ROWS = 7
_ROW_INCHES = 0.16
_LONG_NAME = 30
"""Characters that two columns of the legend have no room for."""
# Mid-tones for light and dark backgrounds; markers distinguish them as well.
_COLORS = ("#0b8f8f", "#c77d0a", "#8a6fc9", "#d4553f", "#4f8fd6", "#5c9e3d", "#c23b9c", "#7d858e")
_MARKERS = "osD^vP*X"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPoint:
    """An accuracy and its cost."""

    family: str
    """Points of one family are joined."""
    label: str
    score: Interval
    cost: Cost
    upper_bound: bool = False
    pareto: tuple[str, ...] = ()
    """Names of the `AXES` on which the arm is Pareto-optimal; its point is ringed in their figures."""
    source: Mapping[str, str] = field(default_factory=dict)
    """Where the point is from, for tables: system, arm, measure and folder."""


def cost_figures(study: Study, *, by: str | None = None) -> list[Plot]:
    """A figure for each cost, and for each value of the setting ``by``; none with fewer than two points."""
    settings = {one.name: one.settings for one in study.arms}
    bounds = {one.name for one in study.arms if one.upper_bound}
    points = [
        CostPoint(
            family=family_of(arm),
            label=arm,
            score=one.interval,
            cost=one.cost,
            upper_bound=arm in bounds,
        )
        for arm, one in accuracies(study).items()
        if one.cost is not None
    ]
    parts: dict[Setting | None, list[CostPoint]] = {}
    for drawn in points:
        parts.setdefault(settings[drawn.label].get(by or ""), []).append(drawn)
    if len(parts) < 2:
        return plot_costs(points, name=study.system)
    return [
        plot
        for number, (value, own) in enumerate(parts.items(), start=1)
        for plot in plot_costs(
            [replace(one, family=one.family.replace(f" {by}={value}", "")) for one in own],
            name=f"{study.system}_{number}",
            title=f"Accuracy of {value}",
        )
    ]


def plot_costs(points: Sequence[CostPoint], *, name: str, title: str = "Accuracy") -> list[Plot]:
    """Accuracy against each cost of `AXES`; none with fewer than two points."""
    if len(points) < 2:
        return []
    return [_plot(points, axis, of, name=name, title=title) for axis, of in AXES.items()]


def family_of(arm: str) -> str:
    """The arm without its number of paths, so that a growing vote is one line."""
    return " ".join(word for word in arm.split(" ") if not word.startswith("paths="))


def _plot(
    points: Iterable[CostPoint],
    axis: str,
    of: Callable[[Cost], float],
    *,
    name: str,
    title: str,
) -> Plot:
    families: dict[str, list[CostPoint]] = {}
    for one in points:
        families.setdefault(one.family, []).append(one)
    with mpl.rc_context(STYLE):
        width, height = _SIZE_INCHES
        columns = _columns(families)
        height += max(0, -(-len(families) // columns) - _LEGEND_ROWS) * _ROW_INCHES
        figure, axes = new_figure((width, height))
        for place, (family, own) in enumerate(families.items()):
            drawn = sorted(own, key=lambda one: of(one.cost))
            scores = [one.score for one in drawn]
            axes.errorbar(
                [max(of(one.cost), 1) for one in drawn],
                [found.value for found in scores],
                yerr=[
                    [found.value - found.low for found in scores],
                    [found.high - found.value for found in scores],
                ],
                color=_COLORS[place % len(_COLORS)],
                marker=_MARKERS[(place + place // len(_COLORS)) % len(_MARKERS)],
                ls="--" if drawn[0].upper_bound else "-",
                ms=4,
                lw=1.2,
                elinewidth=0.6,
                label=f"{family} (upper bound)" if drawn[0].upper_bound else family,
            )
        if ringed := [one for own in families.values() for one in own if axis in one.pareto]:
            axes.scatter(
                [max(of(one.cost), 1) for one in ringed],
                [one.score.value for one in ringed],
                s=90,
                facecolors="none",
                edgecolors=INK,
                linewidths=1.2,
                zorder=3,
                label="in the Pareto set",
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{axis} per problem")
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        figure.legend(loc="outside lower center", ncols=columns, fontsize=7)
        ends = "; ".join(f"{family}: {_ends(own, of)}" for family, own in families.items())
        return Plot(
            name=f"{name}_{axis.split(' ', maxsplit=1)[0]}{'_total' if 'prompt' in axis else ''}",
            title=f"{title} against {axis}",
            alt=f"{title} over {axis}. {ends}.",
            svg=svg_text(figure),
            width=round(96 * width),
            height=round(96 * height),
        )


def _columns(families: Collection[str]) -> int:
    """Columns of the legend: two for many short names."""
    return 1 if len(families) <= _LEGEND_ROWS or max(map(len, families)) > _LONG_NAME else 2


def _ends(points: Sequence[CostPoint], of: Callable[[Cost], float]) -> str:
    drawn = sorted(points, key=lambda one: of(one.cost))
    return " to ".join(
        f"{percent(one.score.value)} at {of(one.cost):.0f}"
        for one in (drawn[0], drawn[-1])[: len(drawn)]
    )
