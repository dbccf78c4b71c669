"""Figures of the main job: pass@k, problems, training, seconds."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from pipeline_lib.records import Interval
from pipeline_lib.study.pages.figures import (
    ACCENT,
    BASE,
    CONTROL,
    FAINT,
    INK,
    STYLE,
    Plot,
    new_figure,
    svg_text,
)
from pipeline_lib.study.pages.wording import words
from pipeline_lib.study.summary import EvalSummary

TrainingRow = Mapping[str, float]
"""One logged step: ``step`` and any of loss, reward, entropy, mean_tokens and others."""

TRAINING_PREFIX = "training_"
_COLORS = {"base": BASE, "control": CONTROL, "trained": ACCENT}


def pass_at_k_plot(summaries: Mapping[str, EvalSummary]) -> Plot:
    """pass@k of every policy with the bands of their intervals."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        ks = sorted(summaries["base"].curve)
        for name, summary in summaries.items():
            _band(axes, summary.curve, color=_COLORS[name], label=name)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(ks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([str(k) for k in ks])
        axes.set_xlabel("k")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.legend(loc="lower right")
        ends = ", ".join(
            f"{name} {found.curve[1].value:.2f} at 1 to {found.curve[max(ks)].value:.2f} at {max(ks)}"
            for name, found in summaries.items()
        )
        return Plot(
            name="pass_at_k", title="pass@k", alt=f"pass@k over k: {ends}.", svg=svg_text(figure)
        )


def _band(axes: Axes, curve: Mapping[int, Interval], *, color: str, label: str) -> None:
    ks = sorted(curve)
    axes.fill_between(
        ks, [curve[k].low for k in ks], [curve[k].high for k in ks], color=color, alpha=0.18, lw=0
    )
    axes.plot(ks, [curve[k].value for k in ks], color=color, label=label, marker="o", ms=4)


def difficulty_plot(summaries: Mapping[str, EvalSummary]) -> Plot:
    """Histogram of pass@1 over the held-out problems, by policy."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        edges = [tenth / 10 for tenth in range(11)]
        rates = {
            name: [score.pass_at(1, strict=True) for score in summary.problems]
            for name, summary in summaries.items()
        }
        colors = [_COLORS[name] for name in rates]
        axes.hist(list(rates.values()), bins=edges, color=colors, label=list(rates), rwidth=0.85)
        axes.set_xlabel("pass@1 of the problem")
        axes.set_ylabel("problems")
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.legend()
        ends = "; ".join(
            f"{name}: {sum(r == 0 for r in found)} never solved, {sum(r == 1 for r in found)} always"
            for name, found in rates.items()
        )
        return Plot(
            name="difficulty",
            title="Difficulty of the held-out problems",
            alt=f"Histogram of pass@1 over problems. {ends}.",
            svg=svg_text(figure),
        )


def training_plots(rows: Sequence[TrainingRow], names: Sequence[str]) -> list[Plot]:
    """One curve over steps for each of ``names`` that was logged at least twice.

    Each training phase, such as a warm start, is a separate curve.
    """
    plots = []
    for name in names:
        logged = [row for row in rows if row.get(name) is not None]
        if len(logged) > 1:
            plots.append(_training_plot(name, logged))
    return plots


def _training_plot(name: str, rows: Sequence[TrainingRow]) -> Plot:
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        parts = [
            (str(phase or ""), [(row["step"], row[name]) for row in part])
            for phase, part in groupby(rows, key=lambda row: row.get("phase"))
        ]
        for phase, points in parts:
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, color=ACCENT, alpha=0.3, lw=1)
            axes.plot(steps, _smoothed(values), color=ACCENT)
            if len(parts) > 1:
                _mark_phase(axes, phase, steps[0])
        axes.set_xlabel("step")
        summary = "; ".join(
            f"{f'{phase}, ' if phase else ''}{len(points)} steps from {points[0][1]:.3g} to "
            f"{points[-1][1]:.3g}"
            for phase, points in parts
        )
        return Plot(
            name=f"{TRAINING_PREFIX}{name}",
            title=f"Training: {words(name)}",
            alt=f"{words(name)}: {summary}.",
            svg=svg_text(figure),
        )


def _mark_phase(axes: Axes, phase: str, start: float) -> None:
    axes.axvline(start, color=FAINT, lw=1)
    axes.text(
        start,
        0.99,
        f" {phase}",
        transform=axes.get_xaxis_transform(),
        rotation="vertical",
        verticalalignment="top",
        fontsize=8,
        color=INK,
    )


def _smoothed(values: Sequence[float]) -> list[float]:
    """Moving average over about a tenth of the curve, with shorter windows at its ends."""
    reach = len(values) // 20
    windows = (values[max(0, i - reach) : i + reach + 1] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def seconds_plot(seconds: Mapping[str, float]) -> Plot:
    """Bar chart of seconds by stage."""
    with mpl.rc_context(STYLE | {"axes.grid.axis": "x"}):
        figure, axes = new_figure()
        axes.barh([words(stage) for stage in seconds], list(seconds.values()), color=ACCENT)
        axes.invert_yaxis()
        axes.set_xlabel("seconds")
        shares = ", ".join(f"{words(stage)} {value:.0f}" for stage, value in seconds.items())
        return Plot(
            name="seconds",
            title="Seconds by stage",
            alt=f"Seconds by stage: {shares}.",
            svg=svg_text(figure),
        )
