"""The study of a probe: success of peers by the kept share of chains of different lengths, and the worth of a step."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import getitem
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import PercentFormatter

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval, Row
from pipeline_lib.study.pages.figures import STYLE, Plot, new_figure, svg_text
from pipeline_lib.study.pages.page import Example, Page, ShownText, ShownTexts
from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, percent, points, score
from pipeline_lib.study.study import Arm, Contrast, Point, Series, Study, make_study
from pipeline_lib.systems.classmate.cut import Chain
from pipeline_lib.systems.classmate.peer import HELD_OUT
from pipeline_lib.systems.classmate.probe import Probed
from pipeline_lib.terminal_text import one_line

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Kept shares at which chains of different lengths are averaged."""
_LARGEST = 10
"""Steps shown with the largest lift, and as many with the smallest."""
_CHAINS = 200
_STEP_CHARACTERS = 60
_CLAIMS = (
    "Success of classmates by kept steps",
    "Each classmate continues each chain from 0 to all of its steps.",
    "It succeeds if prefix and continuation together are strictly right.",
    "Prefixes are uncut, so later ones can give the answer away.",
)
_GIVES_AWAY = "gives the answer away"


def probe_study(probed: Probed, evaluate: EvaluateParams, *, seed: int) -> Study:
    """Mean success over problems by peer and kept share, rounded down, and its change from the empty prefix.

    Chains of one problem are averaged first: they are not independent.
    """
    series = _at_shares(probed, "chain", "given away", ("leak",))
    contrasts: list[Contrast] = []
    for name, peer in probed.rows[0]["peers"].items():
        own = _at_shares(probed, "chain", HELD_OUT, ("peers", name, "success"), peer=name)
        contrasts += [
            Contrast(candidate=one, reference=own[0], seed_names=("probe", "difference"))
            for one in own[1:]
        ]
        series += own
        if "shuffled" in peer:
            keys = ("peers", name, "shuffled", "success")
            series += _at_shares(probed, "shuffled", HELD_OUT, keys, peer=name)
    return make_study(
        "classmate", series, contrasts, evaluate=evaluate, seed=seed, provenance={}
    ).with_claims((*_CLAIMS, *probed.notes))


def _at_shares(
    probed: Probed, base: str, measure: str, keys: Sequence[str], **peer: str
) -> list[Series]:
    """The values below ``keys`` of the output lines, at each share."""
    return [
        Series(
            arm=Arm(base=base, settings={**peer, "share": share}),
            measure=measure,
            values=_by_problem(probed, keys, share),
            seed_names=("probe", "success"),
        )
        for share in distinct_shares([len(chain.steps) for chain in probed.chains])
    ]


def distinct_shares(steps: Sequence[int]) -> list[float]:
    """The shares of `SHARES` that keep other steps of some chain than the share before; the first is 0."""
    by_kept = {tuple(int(share * count) for count in steps): share for share in reversed(SHARES)}
    return sorted(by_kept.values())


def _by_problem(probed: Probed, keys: Sequence[str], share: float) -> dict[str, float]:
    """Mean over the chains of each problem; one without a score is left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for chain, row in zip(probed.chains, probed.rows, strict=True):
        values: Any = reduce(getitem, keys, row)
        value = values[int(share * len(chain.steps))]
        if value is not None:
            found[chain.problem.id].append(value)
    return {name: fmean(scores) for name, scores in found.items()}


def lift_table(probed: Probed) -> Table:
    """The steps with the largest lift, then those with the smallest; equal ones in the order of the chains."""
    found = [*itertools.chain.from_iterable(map(_lifts, probed.chains, probed.rows))]
    found.sort(key=lambda step: -step[0])
    shown = [*found[:_LARGEST], *found[max(_LARGEST, len(found) - _LARGEST) :]]
    return Table(
        caption="Steps by lift in points, mean over classmates (*: gives the answer away)",
        columns=("chain", "step", "before", "after", "lift", "text"),
        rows=tuple(cells for _, cells in shown),
    )


def _lifts(chain: Chain, row: Row) -> Iterator[tuple[float, tuple[str, ...]]]:
    """The change of success by each step, mean over the peers that have it, and its line of the table."""
    for number, text in enumerate(chain.steps, start=1):
        pairs = [peer["success"][number - 1 : number + 1] for peer in row["peers"].values()]
        known = [pair for pair in pairs if None not in pair]
        if known:
            before, after = map(fmean, zip(*known, strict=True))
            yield (
                after - before,
                (
                    chain.id,
                    f"{number} of {len(chain.steps)}",
                    percent(before),
                    percent(after),
                    points(after - before) + (" *" if _first_leaks(row, number) else ""),
                    one_line(text, most=_STEP_CHARACTERS),
                ),
            )


def _first_leaks(row: Row, kept: int) -> bool:
    """True if the answer is given away from this step on, and was not before."""
    return bool(kept and row["leak"][kept] and not row["leak"][kept - 1])


def probe_page(probed: Probed, study: Study) -> Page:
    """The curve, the steps by lift and the chains."""
    left_out = len(probed.chains) - _CHAINS
    return Page(
        title="What a step is worth",
        notes=[f"{left_out} further chains are in the output file."] if left_out > 0 else [],
        plots=[_plot(study)],
        tables=[lift_table(probed)],
        examples=[
            _example(chain, row)
            for chain, row in zip(probed.chains[:_CHAINS], probed.rows, strict=False)
        ],
    )


def _plot(study: Study) -> Plot:
    """Mean success against the kept share."""
    settings = {one.name: one.settings for one in study.arms}
    lines: dict[str, list[Point]] = defaultdict(list)
    for one in study.points:
        if one.measure == HELD_OUT:
            lines[one.arm.rpartition(" share=")[0]].append(one)
    with mpl.rc_context(STYLE):
        figure, axes = new_figure()
        for name, line in lines.items():
            axes.errorbar(
                [settings[one.arm]["share"] for one in line],
                [one.value for one in line],
                yerr=[
                    [one.value - one.low for one in line],
                    [one.high - one.value for one in line],
                ],
                marker="o",
                ms=4,
                elinewidth=0.6,
                ls="--" if name.startswith("shuffled") else "-",
                label=name,
            )
        axes.set_xlabel("kept share of the steps")
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
        axes.set_ylim(0, 1)
        axes.legend(loc="upper left")
        ends = "; ".join(
            f"{name} {line[0].value:.2f} to {line[-1].value:.2f}" for name, line in lines.items()
        )
        return Plot(
            name="success",
            title="Success of classmates by the kept share of a chain",
            alt=f"Success over the kept share: {ends}.",
            svg=svg_text(figure),
        )


def _example(chain: Chain, row: Row) -> Example:
    steps = [
        ShownText(
            text=text,
            about=(
                f"step {kept}" if kept else "empty prefix",
                *(f"{name} {_score(peer, kept)}" for name, peer in row["peers"].items()),
                *((_GIVES_AWAY,) if _first_leaks(row, kept) else ()),
            ),
        )
        for kept, text in enumerate(("", *chain.steps))
    ]
    return Example(
        id=chain.id,
        question=chain.problem.question,
        gold=chain.problem.kind.show_gold(chain.problem.gold),
        groups=[ShownTexts(title="Steps", texts=steps)],
    )


def _score(peer: Row, kept: int) -> str:
    value, low, high = (peer[name][kept] for name in ("success", "low", "high"))
    return EMPTY if value is None else score(Interval(value=value, low=low, high=high))
