r"""Accuracy on locks against drawn tokens and critical path: votes, synthesis, threads, retries. The figure of the README.

The points are of `reasonloop frontier` over runs of one seed, all on the same test problems:

    reasonloop pacore run --profile locks-rivals --workspace /tmp/pacore
    reasonloop apr run --profile apr-locks --workspace /tmp/threads
    reasonloop frontier /tmp/pacore /tmp/threads --output /tmp/frontier
    python -m benchmarks.locks_figure /tmp/frontier/frontier.json docs/images/locks.svg
"""

import argparse
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from benchmarks.lib.command_line import make_parser
from pipeline_lib.store.files import read_json
from pipeline_lib.study.pages.figures import STYLE, new_figure, svg_text

_OWN = r"(?: model=synthesizer)?$"
LINES = {
    "best vote of paths": r"pacore: (majority|part vote|likelihood|weighted vote) model=synthesizer",
    "PaCoRe: rounds, greedy last call": rf"pacore: rounds (1|4|16|32,4),1, greedy last call{_OWN}",
    "APR: threads, greedy": r"apr: parallel T=0$",
    "one retry after another, greedy": r"apr: serial T=0$",
    "retries at once, the first counts": r"pacore: parallel retry .*(greedy|early)",
}
"""Patterns of arms by the name of their line."""
AXES = {"critical": "mean critical path in tokens", "drawn": "drawn tokens"}
_COLORS = ("#7d858e", "#0b8f8f", "#8a6fc9", "#d4553f", "#c77d0a")
_MARKERS = "soD^v"


def main() -> None:
    """Write the figure."""
    arguments = _arguments()
    points = read_json(arguments.frontier)["points"]
    with mpl.rc_context(STYLE):
        arguments.figure.write_text(svg_text(draw(points)), "utf-8")


def _arguments() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument(
        "frontier", type=pathlib.Path, help="frontier.json of `reasonloop frontier`"
    )
    parser.add_argument("figure", type=pathlib.Path, help="SVG to write")
    return parser.parse_args()


def draw(points: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel for each of `AXES`, with a line for each of `LINES`."""
    figure, first = new_figure((9.0, 3.6))
    first.remove()
    for axes, (axis, name) in zip(figure.subplots(1, 2, sharey=True), AXES.items(), strict=True):
        for place, (label, pattern) in enumerate(LINES.items()):
            found = [one for one in points if re.match(pattern, one["label"])]
            if not found:
                raise SystemExit(f"no arm matches {pattern!r}; give the frontier of both runs")
            if "vote" in label:
                found = _best(found)
            found.sort(key=lambda one: one[axis])
            axes.errorbar(
                [one[axis] for one in found],
                [one["value"] for one in found],
                yerr=[
                    [one["value"] - one["low"] for one in found],
                    [one["high"] - one["value"] for one in found],
                ],
                label=label if axis == "drawn" else None,
                color=_COLORS[place],
                marker=_MARKERS[place],
                ls="-" if axis == "drawn" and "at once" not in label else "",
                lw=1.2,
                elinewidth=0.6,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel(f"{name} of a question")
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    figure.axes[0].set_ylabel("all three locks opened")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _best(votes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the votes of equally many paths, the most accurate."""
    by_tokens: dict[int, Mapping[str, Any]] = {}
    for one in sorted(votes, key=lambda one: one["value"]):
        by_tokens[round(one["drawn"])] = one
    return [*by_tokens.values()]


if __name__ == "__main__":
    main()
