"""The figure of pass@k."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from pipeline_lib.study.pages.figures import (
    ACCENT,
    BASE,
    CONTROL,
    STYLE,
    Plot,
    new_figure,
    svg_text,
)
from pipeline_lib.study.study import Point

_COLORS = (BASE, CONTROL, ACCENT)


def pass_at_k_plot(curves: Mapping[str, Sequence[Point]]) -> Plot:
    """pass@k with the bands of their intervals, by name of the policy; all have the same k."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        ks = [_k_of(one) for one in next(iter(curves.values()))]
        for (name, points), color in zip(curves.items(), _COLORS, strict=False):
            lows, highs = [one.low for one in points], [one.high for one in points]
            axes.fill_between(ks, lows, highs, color=color, alpha=0.18, lw=0)
            axes.plot(ks, [one.value for one in points], color=color, label=name, marker="o", ms=4)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(ks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([str(k) for k in ks])
        axes.set_xlabel("k")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.legend(loc="lower right")
        ends = ", ".join(
            f"{name} {points[0].value:.2f} at {ks[0]} to {points[-1].value:.2f} at {ks[-1]}"
            for name, points in curves.items()
        )
        return Plot(
            name="pass_at_k", title="pass@k", alt=f"pass@k over k: {ends}.", svg=svg_text(figure)
        )


def _k_of(point: Point) -> int:
    return int(point.measure.removeprefix("pass@"))
