"""Figures of a training: one curve over its steps for each logged value."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import matplotlib as mpl
from matplotlib.axes import Axes

from pipeline_lib.study.pages.figures import ACCENT, FAINT, INK, STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.wording import words

TrainingRow = Mapping[str, float]
"""One logged step: ``step`` and any of loss, reward, entropy, mean_tokens and others."""


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
            name=f"training_{name}",
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
