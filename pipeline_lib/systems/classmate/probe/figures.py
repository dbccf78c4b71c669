"""Success of peers by kept steps: of one chain, and the mean over chains by the share that is kept."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval, Row
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.statistics.intervals import score_interval, wilson_interval
from pipeline_lib.study.statistics.paired import paired_difference
from pipeline_lib.systems.classmate.probe.chains import Chain
from pipeline_lib.systems.classmate.probe.continuations import ChainContinuations
from pipeline_lib.systems.classmate.scoring import Continuations, most_common_reasons

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Kept shares at which chains of different lengths are averaged."""

Success = float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByKept:
    """Success by the number of kept steps, from 0."""

    success: Sequence[Interval | None]
    """Wilson's interval over the continuations; None without a judged one."""
    failed: Sequence[int]
    """Continuations that were not drawn or not judged."""

    @classmethod
    def of(cls, judged: Continuations, *, level: float) -> "ByKept":
        """The figures of the continuations of one chain."""
        scores = [[one.right for one in found if one.right is not None] for found in judged]
        return cls(
            success=[
                wilson_interval(sum(own), len(own), level=level) if own else None for own in scores
            ],
            failed=[len(found) - len(own) for found, own in zip(judged, scores, strict=True)],
        )

    @property
    def values(self) -> list[Success]:
        """Success without bounds."""
        return [one.value if one else None for one in self.success]

    def row(self) -> Row:
        """Lists of equal length for the output line; ``lift`` is the change by the last kept step."""
        return {
            "kept": list(range(len(self.success))),
            "success": self.values,
            "low": [one.low if one else None for one in self.success],
            "high": [one.high if one else None for one in self.success],
            "lift": lifts(self.values),
            "failed": list(self.failed),
        }


def lifts(values: Sequence[Success]) -> list[Success]:
    """The change of success by each step; the first is None, since nothing is before it."""
    pairs = itertools.pairwise(values)
    return [
        None,
        *(None if before is None or after is None else after - before for before, after in pairs),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedChain:
    """A chain with the figures of all peers."""

    chain: Chain
    leak: Sequence[bool]
    """By kept steps: the prefix gives the answer away."""
    continuations: Mapping[str, ChainContinuations]
    own: Mapping[str, ByKept]
    shuffled: Mapping[str, ByKept]
    """Empty if no other chain's prefixes were continued."""

    def row(self) -> Row:
        """The output line."""
        return {
            "id": self.chain.id,
            "peers": {
                name: found.row()
                | ({"shuffled": self.shuffled[name].row()} if self.shuffled else {})
                for name, found in self.own.items()
            },
            "leak": list(self.leak),
            "continuations": {
                name: found.piece()["own"] for name, found in self.continuations.items()
            },
        }


def missing_notes(probed: Sequence[ProbedChain]) -> list[str]:
    """A sentence for each peer with continuations without a score."""
    notes = []
    for name in probed[0].own:
        reasons = Counter(
            one.failure or "not judged"
            for chain in probed
            for found in (chain.continuations[name].own, chain.continuations[name].shuffled)
            for group in found
            for one in group
            if one.right is None
        )
        if reasons:
            notes.append(
                f"classmate {name}: {reasons.total()} continuations have no score: {most_common_reasons(reasons)}"
            )
    return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePoint:
    """Mean success of a peer where a share of each chain is kept."""

    share: float
    problems: int
    """With a score at this share."""
    success: Interval
    over_empty: Interval | None
    """Minus the success from the empty prefix, on the problems that have both; None for that prefix itself."""
    shuffled: Interval | None


def mean_curves(
    probed: Sequence[ProbedChain], evaluate: EvaluateParams, *, seed: int
) -> dict[str, list[SharePoint]]:
    """Mean curves by the peer's name, of peers with a score from an empty prefix."""
    curves = {name: _mean_curve(probed, name, evaluate, seed=seed) for name in probed[0].own}
    return {name: curve for name, curve in curves.items() if curve}


def _mean_curve(
    probed: Sequence[ProbedChain], peer: str, evaluate: EvaluateParams, *, seed: int
) -> list[SharePoint]:
    """Mean success of ``peer`` over problems, by the kept share of the steps, rounded down.

    Chains of one problem are averaged first: they are not independent.
    """
    own = {one.chain.id: one.own[peer].values for one in probed}
    shuffled = {one.chain.id: one.shuffled[peer].values for one in probed if one.shuffled}
    empty = _by_problem(probed, own, share=0.0)
    points = []
    for share in distinct_shares([len(one.chain.steps) for one in probed]):
        scores = _by_problem(probed, own, share=share)
        others = _by_problem(probed, shuffled, share=share)
        if not empty.keys() & scores.keys():
            continue
        points.append(
            SharePoint(
                share=share,
                problems=len(scores),
                success=_interval(scores, evaluate, seed=seed),
                over_empty=_over(empty, scores, evaluate, seed=seed) if share else None,
                shuffled=_interval(others, evaluate, seed=seed) if others else None,
            )
        )
    return points


def distinct_shares(steps: Sequence[int]) -> list[float]:
    """The shares of `SHARES` that keep other steps of some chain than the share before; the first is 0."""
    found: list[float] = []
    for share in SHARES:
        kept = [kept_steps(share, count) for count in steps]
        if not found or kept != [kept_steps(found[-1], count) for count in steps]:
            found.append(share)
    return found


def leak_rate(probed: Sequence[ProbedChain], *, share: float) -> float:
    """Share of chains whose prefix of this length gives the answer away."""
    return float(np.mean([one.leak[kept_steps(share, len(one.chain.steps))] for one in probed]))


def kept_steps(share: float, steps: int) -> int:
    """Whole steps of a kept share."""
    return math.floor(share * steps)


def _by_problem(
    probed: Sequence[ProbedChain], values: Mapping[str, Sequence[Success]], *, share: float
) -> dict[str, float]:
    """Mean over the chains of each problem; one without a score is left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in probed:
        own = values.get(one.chain.id)
        value = own[kept_steps(share, len(one.chain.steps))] if own else None
        if value is not None:
            found[one.chain.problem.id].append(value)
    return {name: float(np.mean(scores)) for name, scores in found.items()}


def _interval(scores: Mapping[str, float], evaluate: EvaluateParams, *, seed: int) -> Interval:
    return score_interval(
        np.array([*scores.values()]),
        evaluate,
        seed=child_seed(seed, "probe", "success"),
    )


def _over(
    empty: Mapping[str, float], scores: Mapping[str, float], evaluate: EvaluateParams, *, seed: int
) -> Interval:
    """Scores minus those from the empty prefix, problem by problem."""
    both = [name for name in scores if name in empty]
    return paired_difference(
        np.array([empty[name] for name in both]),
        np.array([scores[name] for name in both]),
        evaluate,
        seed=child_seed(seed, "probe", "difference"),
    ).interval


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLift:
    """The change of success by one step, mean over the peers that have it."""

    chain: Chain
    number: int
    """Of the step, from 1."""
    before: float
    after: float
    leaks: bool
    """The answer is given away from this step on, and was not before."""

    @property
    def lift(self) -> float:
        """After minus before."""
        return self.after - self.before


def step_lifts(probed: Sequence[ProbedChain]) -> list[StepLift]:
    """All steps with a lift, the largest first; equal ones in the order of the chains."""
    found = []
    for one in probed:
        for number in range(1, len(one.chain.steps) + 1):
            pairs = [(own.values[number - 1], own.values[number]) for own in one.own.values()]
            known = [(b, a) for b, a in pairs if b is not None and a is not None]
            if known:
                before_M, after_M = np.array(known).T
                found.append(
                    StepLift(
                        chain=one.chain,
                        number=number,
                        before=float(before_M.mean()),
                        after=float(after_M.mean()),
                        leaks=one.leak[number] and not one.leak[number - 1],
                    )
                )
    return sorted(found, key=lambda step: -step.lift)
