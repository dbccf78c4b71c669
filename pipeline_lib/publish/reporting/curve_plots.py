"""Test-time compute curves as plots, a table and CSV rows."""

from collections.abc import Callable, Mapping

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter

from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.records import Row
from pipeline_lib.study.curves.result import ComputeCurves, CurvePoint
from pipeline_lib.study.pages.figures import STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, count, difference, level, score
from pipeline_lib.study.statistics.paired import DifferenceFinding

_SIZE_INCHES = (4.8, 5.0)
# Mid-tones for light and dark backgrounds; markers distinguish them as well.
_LOOKS: Mapping[Strategy, tuple[str, str]] = {
    Strategy.SINGLE: ("#7d858e", "o"),
    Strategy.ORACLE: ("#7d858e", "x"),
    Strategy.LIKELIHOOD: ("#c77d0a", "v"),
    Strategy.MEAN_LOGPROB: ("#b8577a", "^"),
    Strategy.SELF_CERTAINTY: ("#8a6fc9", "s"),
    Strategy.MAJORITY: ("#0b8f8f", "o"),
    Strategy.LIKELIHOOD_VOTE: ("#d4553f", "<"),
    Strategy.CERTAINTY_VOTE: ("#4f8fd6", ">"),
    Strategy.BORDA_VOTE: ("#5c9e3d", "D"),
    Strategy.BEAM: ("#a0763c", "P"),
    Strategy.TREE: ("#c23b9c", "*"),
}


def plot_curves(curves: ComputeCurves) -> list[Plot]:
    """Plots of accuracy over tokens and over the critical path."""
    return [
        _plot(curves, "tokens", lambda point: point.completion_tokens),
        _plot(curves, "critical path", lambda point: point.critical_tokens),
    ]


def _plot(curves: ComputeCurves, axis: str, amount: Callable[[CurvePoint], float]) -> Plot:
    with mpl.rc_context(STYLE):
        figure, axes = new_figure(_SIZE_INCHES)
        for strategy in Strategy:
            if points := curves.curve(strategy):
                _curve(axes, strategy, [(amount(point), point) for point in points])
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(f"{axis}, tokens per problem" if axis != "tokens" else "tokens per problem")
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
        best = max(
            (point for point in curves.points if not point.upper_bound),
            key=lambda point: point.strict.value,
            default=None,
        )
        shown = f" Best label-free point: {_describe(best)}." if best else ""
        return Plot(
            name=f"compute_{axis.replace(' ', '_')}_{curves.policy}",
            title=f"Accuracy against {axis}, {curves.policy} policy",
            alt=f"Strict accuracy over {axis} of {curves.num_problems} problems.{shown}",
            svg=svg_text(figure),
        )


def _curve(axes: Axes, strategy: Strategy, points: list[tuple[float, CurvePoint]]) -> None:
    color, marker = _LOOKS[strategy]
    points = sorted(points, key=lambda pair: pair[0])
    amounts = [amount for amount, _ in points]
    scores = [point.strict for _, point in points]
    below = [found.value - found.low for found in scores]
    above = [found.high - found.value for found in scores]
    axes.errorbar(
        amounts,
        [found.value for found in scores],
        yerr=[below, above],
        color=color,
        marker=marker,
        ms=4,
        lw=1.2,
        elinewidth=0.6,
        ls="--" if points[0][1].upper_bound else "-",
        label=_label(points[0][1]),
    )


def _describe(point: CurvePoint) -> str:
    return f"{point.strategy.value} at {point.budget}, {100 * point.strict.value:.1f} %"


def curve_table(curves: ComputeCurves) -> Table:
    """All points: accuracy with interval, tokens, and difference to the majority vote."""
    example = curves.points[0].strict
    return Table(
        caption=(
            f"Test-time compute, {curves.policy} policy: strict accuracy with {level(example)} "
            f"intervals over {curves.num_problems} problems, tokens per problem, and difference in "
            "points to a majority vote with the same N (*: significant)"
        ),
        columns=("strategy", "N", "accuracy", "sampled", "critical", "rescored", "vs. majority"),
        rows=tuple(_cells(point) for strategy in Strategy for point in curves.curve(strategy)),
    )


def _cells(point: CurvePoint) -> tuple[str, ...]:
    against = point.against_majority
    beyond = against is not None and against.finding is not DifferenceFinding.NO_SIGNIFICANT_GAIN
    return (
        _label(point),
        str(point.budget),
        score(point.strict),
        f"{point.completion_tokens:.1f}",
        f"{point.critical_tokens:.1f}",
        count(round(point.scoring_tokens)) if point.scoring_tokens else EMPTY,
        f"{difference(against.interval)}{' *' if beyond else ''}" if against else EMPTY,
    )


def _label(point: CurvePoint) -> str:
    name = point.strategy.value
    return f"{name} (upper bound)" if point.upper_bound else name


def curve_rows(curves: ComputeCurves) -> list[Row]:
    """The points as flat rows, for CSV."""
    return [
        {
            "policy": curves.policy,
            "strategy": point.strategy.value,
            "upper_bound": point.upper_bound,
            "budget": point.budget,
            "strict": point.strict.value,
            "strict_low": point.strict.low,
            "strict_high": point.strict.high,
            "lenient": point.lenient.value,
            "lenient_low": point.lenient.low,
            "lenient_high": point.lenient.high,
            "completion_tokens": point.completion_tokens,
            "critical_tokens": point.critical_tokens,
            "prompt_tokens": point.prompt_tokens,
            "scoring_tokens": point.scoring_tokens,
        }
        for point in curves.points
    ]
