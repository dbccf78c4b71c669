"""Curves of an evaluation: accuracy against drawn and against critical tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from pipeline_lib.records import Interval
from pipeline_lib.study.pages.figures import STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.wording import percent
from pipeline_lib.systems.apr.evaluation.figures import ModelFigures

_SIZE_INCHES = (4.8, 4.6)
# Mid-tones for light and dark backgrounds; markers distinguish them as well.
_COLORS = ("#0b8f8f", "#c77d0a", "#8a6fc9", "#d4553f", "#4f8fd6", "#5c9e3d", "#c23b9c", "#7d858e")
_MARKERS = "osD^vP*X"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    drawn: float
    critical: float
    accuracy: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    label: str
    style: str
    points: Sequence[_Point]


def curve_plots(models: Sequence[ModelFigures]) -> list[Plot]:
    """A plot for each count of tokens; none without a model of several conditions or samples."""
    lines = [*_condition_lines(models), *_vote_lines(models)]
    if all(len(line.points) < 2 for line in lines):
        return []
    return [_plot(lines, "drawn"), _plot(lines, "critical")]


def _condition_lines(models: Sequence[ModelFigures]) -> list[_Line]:
    """Of each model and temperature its conditions."""
    points: dict[str, list[_Point]] = {}
    for one in models:
        label = f"{one.setting.name}, T = {one.setting.temperature:g}"
        tokens = one.tokens
        point = _Point(drawn=tokens["drawn"], critical=tokens["critical"], accuracy=one.accuracy)
        points.setdefault(label, []).append(point)
    return [_Line(label=label, style="-", points=own) for label, own in points.items()]


def _vote_lines(models: Sequence[ModelFigures]) -> list[_Line]:
    """Of each setting with several samples consensus, and its bound."""
    lines = []
    for one in models:
        for title, style, bound in (("consensus", "--", False), ("pass@k (bound)", ":", True)):
            points = [
                _Point(
                    drawn=vote.drawn_tokens,
                    critical=vote.critical_tokens,
                    accuracy=vote.any_sample if bound else vote.consensus,
                )
                for vote in one.votes
            ]
            if points:
                lines.append(
                    _Line(label=f"{one.setting.label}: {title}", style=style, points=points)
                )
    return lines


def _plot(lines: Sequence[_Line], count: str) -> Plot:
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(_SIZE_INCHES)
        for place, line in enumerate(lines):
            points = sorted(line.points, key=lambda one: getattr(one, count))
            scores = [one.accuracy for one in points]
            axes.errorbar(
                [getattr(one, count) for one in points],
                [found.value for found in scores],
                yerr=[
                    [found.value - found.low for found in scores],
                    [found.high - found.value for found in scores],
                ],
                color=_COLORS[place % len(_COLORS)],
                marker=_MARKERS[place % len(_MARKERS)],
                ls=line.style,
                ms=4,
                lw=1.2,
                elinewidth=0.6,
                label=line.label,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{count} tokens per problem")
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        figure.legend(loc="outside lower center", ncols=1, fontsize=7)
        ends = "; ".join(f"{line.label}: {_ends(line, count)}" for line in lines)
        return Plot(
            name=f"apr_{count}",
            title=f"Accuracy against {count} tokens",
            alt=f"Accuracy over {count} tokens. {ends}.",
            svg=svg_text(figure),
        )


def _ends(line: _Line, count: str) -> str:
    points = sorted(line.points, key=lambda one: getattr(one, count))
    return " to ".join(
        f"{percent(one.accuracy.value)} at {getattr(one, count):.0f}"
        for one in dict.fromkeys((points[0], points[-1]))
    )
