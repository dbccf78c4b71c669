"""Accuracy within limits: the share of rollouts that are right and no longer than a window, or than a critical path.

At one limit the longer of two models looks as bad as the limit is chosen, so the whole curve is shown.
"""

from collections.abc import Iterator, Mapping, Sequence

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from pipeline_lib.study.pages.figures import STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import percent
from pipeline_lib.systems.apr.evaluation.study import DrawnRows

LIMITED = {"longest": "window", "critical": "critical path"}
"""Counts of tokens that limits are for, and what they stand for."""
_LIMITS = 12
_UNIT = 16
"""Tokens; limits are multiples."""


def gates_of(drawn: Sequence[DrawnRows], wanted: Mapping[str, float]) -> Iterator[str]:
    """A sentence for each greedy setting with figures of a task, which are ``wanted`` to be so high."""
    for one in drawn:
        shares = {
            name: float(np.mean(known))
            for name in wanted
            if (known := [row["measures"][name] for row in one.whole if name in row["measures"]])
        }
        if shares and not one.setting.temperature and one.setting.kind == "parallel":
            figures = ", ".join(
                f"{name} {percent(share)} ({percent(wanted[name])} wanted)"
                for name, share in shares.items()
            )
            is_met = all(share >= wanted[name] for name, share in shares.items())
            yield f"Gates of {one.setting.name}, {'met' if is_met else 'not met'}: {figures}."


def accuracies_within(drawn: DrawnRows, count: str, limits: Sequence[int]) -> list[float]:
    """The mean over problems, at each of the limits of a count of tokens."""
    groups = drawn.by_problem.values()
    return [
        float(
            np.mean(
                [
                    np.mean([row["is_correct"] and row["tokens"][count] <= most for row in rows])
                    for rows in groups
                ]
            )
        )
        for most in limits
    ]


def _limits(drawn: Sequence[DrawnRows], count: str) -> list[int]:
    lengths: npt.NDArray[np.float64] = np.concatenate(
        [[row["tokens"][count] for row in one.whole] for one in drawn]
    )
    steps = np.quantile(lengths, np.linspace(0, 1, _LIMITS))
    return sorted({int(-(-step // _UNIT) * _UNIT) for step in steps})


def limit_tables(drawn: Sequence[DrawnRows]) -> Iterator[Table]:
    """A table for each count, with a row per limit and a column per setting."""
    for count, name in LIMITED.items():
        limits = _limits(drawn, count)
        columns = [accuracies_within(one, count, limits) for one in drawn]
        rows = zip(map(str, limits), *(map(percent, one) for one in columns), strict=True)
        yield Table(
            caption=f"Accuracy by limit of the {name} in tokens; longer rollouts count as wrong",
            columns=(name, *(one.setting.label for one in drawn)),
            rows=tuple(rows),
        )


def limit_plots(drawn: Sequence[DrawnRows]) -> Iterator[Plot]:
    """The same as figures."""
    for count, name in LIMITED.items():
        limits = _limits(drawn, count)
        with mpl.rc_context(STYLE):
            figure, axes = new_figure()
            for one in drawn:
                shares = [100 * share for share in accuracies_within(one, count, limits)]
                axes.plot(limits, shares, label=one.setting.label)
            axes.set_xlabel(f"{name}, tokens")
            axes.set_ylabel("accuracy, %")
            axes.legend(fontsize=6)
            svg = svg_text(figure)
        yield Plot(
            name=f"within-{count}",
            title=f"Accuracy within a {name}",
            alt=f"Accuracy of each setting by the {name} that rollouts may take.",
            svg=svg,
        )
