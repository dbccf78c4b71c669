"""Figures as SVG text for light and dark mode, without global matplotlib state.

A figure fits beside another on a wide screen and alone on a phone. Colours are drawn as fixed
values and then replaced by CSS variables that the SVG defines, so one file serves the report and
the folder of plots.
"""

import io
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK, FAINT, BASE, ACCENT = "#1c2024", "#d8dbdf", "#7d858e", "#0b6e6e"
CONTROL = "#b26a1f"
_DARK = {
    INK: "#e6e8ea",
    FAINT: "#3a4046",
    BASE: "#98a1aa",
    ACCENT: "#4fc3bd",
    CONTROL: "#e0a35e",
}
_SIZE_INCHES = (4.4, 2.9)
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "reasonloop",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
"""Metadata is left out, so that equal data give equal bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure: file stem, title, alternative text, and SVG."""

    name: str
    title: str
    alt: str
    svg: str
    width: int = 422
    """In CSS pixels; a narrow screen shows it smaller."""
    height: int = 278


def new_figure(size_inches: tuple[float, float] = _SIZE_INCHES) -> tuple[Figure, Axes]:
    """An empty figure; call it, like all drawing, within `STYLE`."""
    figure = Figure(figsize=size_inches, layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def svg_text(figure: Figure) -> str:
    """The figure as SVG for light and dark mode."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    text = buffer.getvalue()
    for color in _DARK:
        text = text.replace(color, f"var(--c{color[1:]}, {color})")
    light = "".join(f"--c{color[1:]}:{color};" for color in _DARK)
    dark = "".join(f"--c{color[1:]}:{value};" for color, value in _DARK.items())
    style = (
        f"<style>svg{{{light}}} text{{font-family:system-ui,sans-serif!important}}"
        f"@media (prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    )
    return text.replace("<defs>", f"{style}<defs>", 1)
