"""Tables of a probe, and its page: one file without scripts or requests. Text of models is escaped."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from pipeline_lib.store.files import write_text
from pipeline_lib.study.pages.environment import page_environment
from pipeline_lib.study.pages.figures import STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, difference, level, percent, points, score
from pipeline_lib.systems.classmate.probe.figures import (
    ProbedChain,
    SharePoint,
    StepLift,
    leak_rate,
    missing_notes,
    step_lifts,
)
from pipeline_lib.terminal_text import one_line

Curves = Mapping[str, Sequence[SharePoint]]
"""Mean curves by the peer's name."""

_LARGEST = 10
"""Steps shown with the largest lift, and as many with the smallest."""
_CHAINS = 200
_STEP_CHARACTERS = 60
_COLORS = ("#0b6e6e", "#d4553f", "#8a6fc9", "#4f8fd6", "#c77d0a", "#5c9e3d")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """A step as the page shows it."""

    text: str
    where: str
    figures: Sequence[str]
    leaks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChain:
    """A chain as the page shows it; the first step is the empty prefix."""

    id: str
    question: str
    gold: str
    summary: str
    steps: Sequence[ShownStep]


def curve_tables(probed: Sequence[ProbedChain], curves: Curves) -> list[Table]:
    """The mean curve of each peer."""
    return [
        Table(
            caption=f"{name}: success by the kept share of the steps, with {level(curve[0].success)} intervals over problems",
            columns=(
                *("kept", "problems", "success", "minus empty prefix"),
                *("another chain's prefix", "answer given away"),
            ),
            rows=tuple(
                (
                    f"{100 * point.share:.0f}\N{NO-BREAK SPACE}%",
                    str(point.problems),
                    score(point.success),
                    difference(point.over_empty) if point.over_empty else EMPTY,
                    score(point.shuffled) if point.shuffled else EMPTY,
                    percent(leak_rate(probed, share=point.share)),
                )
                for point in curve
            ),
        )
        for name, curve in curves.items()
    ]


def lift_table(steps: Sequence[StepLift]) -> Table:
    """The steps with the largest and the smallest lift."""
    return Table(
        caption="Steps by lift in points, mean over classmates (*: gives the answer away)",
        columns=("chain", "step", "before", "after", "lift", "text"),
        rows=tuple(
            (
                one.chain.id,
                f"{one.number} of {len(one.chain.steps)}",
                percent(one.before),
                percent(one.after),
                points(one.lift) + (" *" if one.leaks else ""),
                one_line(one.chain.steps[one.number - 1], most=_STEP_CHARACTERS),
            )
            for one in largest_and_smallest(steps)
        ),
    )


def largest_and_smallest(steps: Sequence[StepLift]) -> list[StepLift]:
    """The first and the last of ``steps``, which are in the order of their lift."""
    return [*steps[:_LARGEST], *steps[max(_LARGEST, len(steps) - _LARGEST) :]]


def write_page(path: pathlib.Path, probed: Sequence[ProbedChain], curves: Curves) -> None:
    """Write the curve, the steps by lift and the chains."""
    template = page_environment(pathlib.Path(__file__).parent).get_template("page.html.j2")
    text = template.render(
        plot=plot(curves),
        notes=missing_notes(probed),
        tables=curve_tables(probed, curves),
        steps=[_shown_lift(one) for one in largest_and_smallest(step_lifts(probed))],
        chains=[_shown_chain(one) for one in probed[:_CHAINS]],
        left_out=max(0, len(probed) - _CHAINS),
    )
    write_text(path, text)


def plot(curves: Curves) -> Plot:
    """Mean success against the kept share, with bands; dashed: after another chain's prefix."""
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        for number, (name, curve) in enumerate(curves.items()):
            _draw(axes, curve, label=name, color=_COLORS[number % len(_COLORS)])
        axes.set_xlabel("kept share of the steps")
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.set_ylim(0, 1)
        axes.legend(loc="upper left")
        ends = "; ".join(
            f"{name} {curve[0].success.value:.2f} at {curve[0].share:.0%} to "
            f"{curve[-1].success.value:.2f} at {curve[-1].share:.0%}"
            for name, curve in curves.items()
        )
        return Plot(
            name="success",
            title="Success of classmates by the kept share of a chain",
            alt=f"Success over the kept share: {ends}.",
            svg=svg_text(figure),
        )


def _draw(axes: Axes, curve: Sequence[SharePoint], *, label: str, color: str) -> None:
    shares = [point.share for point in curve]
    axes.fill_between(
        shares,
        [point.success.low for point in curve],
        [point.success.high for point in curve],
        color=color,
        alpha=0.18,
        lw=0,
    )
    axes.plot(
        shares,
        [point.success.value for point in curve],
        color=color,
        label=label,
        marker="o",
        ms=4,
    )
    shuffled = [(point.share, point.shuffled.value) for point in curve if point.shuffled]
    if shuffled:
        axes.plot(
            *zip(*shuffled, strict=True),
            color=color,
            ls="--",
            lw=1.2,
            label=f"{label}, another chain",
        )


def _shown_lift(one: StepLift) -> ShownStep:
    return ShownStep(
        text=one.chain.steps[one.number - 1],
        where=f"{one.chain.id}, step {one.number} of {len(one.chain.steps)}",
        figures=[f"{points(one.lift)} points", f"{percent(one.before)} to {percent(one.after)}"],
        leaks=one.leaks,
    )


def _shown_chain(one: ProbedChain) -> ShownChain:
    chain = one.chain
    return ShownChain(
        id=chain.id,
        question=chain.problem.question,
        gold=chain.problem.kind.show_gold(chain.problem.gold),
        summary=", ".join(
            f"{name} {' '.join(_bare(value) for value in own.values)}"
            for name, own in one.own.items()
        ),
        steps=list(_shown_steps(one)),
    )


def _bare(value: float | None) -> str:
    return EMPTY if value is None else f"{100 * value:.0f}"


def _shown_steps(one: ProbedChain) -> Iterator[ShownStep]:
    for kept in range(len(one.chain.steps) + 1):
        yield ShownStep(
            text=one.chain.steps[kept - 1] if kept else "",
            where=f"step {kept}" if kept else "empty prefix",
            figures=[
                f"{name} {score(success) if success else EMPTY}"
                for name, own in one.own.items()
                for success in [own.success[kept]]
            ],
            leaks=bool(kept) and one.leak[kept] and not one.leak[kept - 1],
        )
