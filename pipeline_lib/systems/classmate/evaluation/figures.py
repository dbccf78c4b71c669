"""Figures of an evaluation of Classmate; pure functions of judged paths and continuations.

Success of a peer is averaged over the prefixes of a problem, then over problems. Success over right paths
separates use from correctness, but each policy chose its own right paths, so a paired difference over them is
taken on the problems where both have some.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.comparison import compare
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.study.summary import EvalSummary
from pipeline_lib.systems.classmate.evaluation.continuations import Scores
from pipeline_lib.systems.classmate.evaluation.prefixes import EMPTY, Asked, CutPath, shuffled

Means = Mapping[str, float]
"""By problem id."""
Shares = tuple[float, ...]
WHICH: Mapping[str, Callable[[CutPath], bool]] = {
    "all": lambda _path: True,
    "right": lambda path: path.right,
    "wrong": lambda path: not path.right,
}
"""Sets of paths whose prefixes are averaged."""
MEAN = "mean"
"""In place of a share: the mean over all shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFigures:
    """Figures of one policy."""

    name: str
    summary: EvalSummary
    success: Mapping[str, Mapping[str, Mapping[str, Interval | None]]]
    """By peer, share (or MEAN) and set of paths; None without any prefix."""
    shuffled: Mapping[str, Mapping[str, Interval | None]]
    """By peer and share: the prefix is one of another problem."""
    spread: Mapping[str, Mapping[str, "Spread | None"]]
    """By peer and share: how much right prefixes of a problem differ in use."""
    leaks: Mapping[str, float]
    """By share: part of the prefixes that were cut back, since they gave the answer away."""
    kept_steps: Mapping[str, float]
    """By share: mean number of steps of a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """True spread of success among the right prefixes of a problem."""

    sd: float
    """Root of the covariance between halves of the continuations, within problems; 0 if that is negative."""
    mean: float
    problems: int
    """With two distinct right prefixes or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """``policy`` minus ``reference`` on the same problems."""

    policy: str
    reference: str
    pass_at: Mapping[int, PairedDifference]
    """Strict, by k."""
    success: Mapping[str, Mapping[str, Mapping[str, PairedDifference | None]]]
    """By peer, share (or MEAN) and set of paths; None without a problem that both have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Settings of all intervals."""

    params: EvaluateParams
    seed: int

    def interval(self, means: Means, *names: str) -> Interval | None:
        """Of the mean over problems; None without any."""
        if not means:
            return None
        return score_interval(
            np.array([*means.values()]),
            self.params,
            seed=child_seed(self.seed, "classmate", *names),
        )

    def difference(self, base: Means, other: Means, *names: str) -> PairedDifference | None:
        """``other`` minus ``base`` on the problems of both; None without any."""
        shared = sorted(base.keys() & other.keys())
        if not shared:
            return None
        return paired_difference(
            np.array([base[name] for name in shared]),
            np.array([other[name] for name in shared]),
            self.params,
            seed=child_seed(self.seed, "classmate", "difference", *names),
        )


def problem_means(
    paths: Iterable[CutPath], peer: str, shares: Shares, scores: Scores, *, which: str = "all"
) -> dict[str, float]:
    """Mean success of ``peer`` by problem, over the prefixes of its paths at ``shares``.

    Continuations without a score are left out; so are problems without any.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for path in filter(WHICH[which], paths):
        for share in shares:
            known = _known(scores, peer, Asked(path.problem_id, path.prefixes[share].text))
            if known:
                found[path.problem_id].append(fmean(known))
    return {name: fmean(values) for name, values in found.items()}


def empty_means(problem_ids: Iterable[str], peer: str, scores: Scores) -> dict[str, float]:
    """Mean success of ``peer`` by problem, without a prefix."""
    known = {name: _known(scores, peer, Asked(name, EMPTY)) for name in problem_ids}
    return {name: fmean(values) for name, values in known.items() if values}


def right_spread(
    paths: Iterable[CutPath], peer: str, share: float, scores: Scores
) -> Spread | None:
    """Spread of success among the distinct right prefixes of a problem, by split halves; None without two.

    A prefix is right if a path that begins with it is. With halves a and b of the continuations of a prefix,
    noise of the draws is independent, so the covariance of their means is the variance of true success.
    """
    halves: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for path in paths:
        text = path.prefixes[share].text
        known = _known(scores, peer, Asked(path.problem_id, text))
        if path.right and len(known) > 1:
            middle = len(known) // 2
            halves[path.problem_id][text] = fmean(known[:middle]), fmean(known[middle:])
    groups = [np.array([*group.values()]) for group in halves.values() if len(group) > 1]
    if not groups:
        return None
    covariance = fmean(float(np.cov(group_2.T)[0, 1]) for group_2 in groups)
    return Spread(
        sd=max(0.0, covariance) ** 0.5,
        mean=fmean(float(group.mean()) for group in groups),
        problems=len(groups),
    )


def policy_figures(
    name: str,
    summary: EvalSummary,
    paths: Sequence[CutPath],
    peers: Sequence[str],
    scores: Scores,
    estimates: Estimates,
) -> PolicyFigures:
    """The figures of one policy; ``paths`` have the same shares."""
    shares = tuple(paths[0].prefixes)
    moved = shuffled(paths)
    return PolicyFigures(
        name=name,
        summary=summary,
        success={
            peer: {
                label: {
                    which: estimates.interval(
                        problem_means(paths, peer, chosen, scores, which=which), peer, which
                    )
                    for which in WHICH
                }
                for label, chosen in labelled(shares).items()
            }
            for peer in peers
        },
        shuffled={
            peer: {
                label: estimates.interval(
                    problem_means(moved, peer, chosen, scores), peer, "shuffled"
                )
                for label, chosen in labelled(shares).items()
            }
            for peer in peers
        },
        spread={
            peer: {str(share): right_spread(paths, peer, share, scores) for share in shares}
            for peer in peers
        },
        leaks={
            str(share): fmean(path.prefixes[share].leaked for path in paths) for share in shares
        },
        kept_steps={
            str(share): fmean(path.prefixes[share].kept for path in paths) for share in shares
        },
    )


def labelled(shares: Shares) -> dict[str, Shares]:
    """Each share alone, and all of them, by the names of the report."""
    return {**{str(share): (share,) for share in shares}, MEAN: shares}


def compare_policies(
    summaries: Mapping[str, EvalSummary],
    paths: Mapping[str, Sequence[CutPath]],
    peers: Sequence[str],
    scores: Scores,
    estimates: Estimates,
) -> list[PolicyComparison]:
    """Each policy minus each one before it."""
    found = []
    for reference, policy in combinations(summaries, 2):
        shares = tuple(paths[policy][0].prefixes)
        success = {
            peer: {
                label: {
                    which: estimates.difference(
                        problem_means(paths[reference], peer, chosen, scores, which=which),
                        problem_means(paths[policy], peer, chosen, scores, which=which),
                        *(reference, policy, peer, which),
                    )
                    for which in WHICH
                }
                for label, chosen in labelled(shares).items()
            }
            for peer in peers
        }
        compared = compare(
            summaries[reference], summaries[policy], estimates.params, seed=estimates.seed
        )
        found.append(
            PolicyComparison(
                policy=policy, reference=reference, pass_at=compared.strict, success=success
            )
        )
    return found


def failed_share(scores: Scores, peer: str) -> float:
    """Part of the continuations of ``peer`` without a score."""
    values = [score for (name, _), known in scores.items() if name == peer for score in known]
    return fmean(score is None for score in values) if values else 0.0


def _known(scores: Scores, peer: str, asked: Asked) -> list[float]:
    return [float(score) for score in scores.get((peer, asked), ()) if score is not None]


def bounds(interval: Interval | None) -> dict[str, Any] | None:
    """As in the JSON file."""
    return None if interval is None else interval.row()


def difference_bounds(difference: PairedDifference | None) -> dict[str, Any] | None:
    """As in the JSON file."""
    if difference is None:
        return None
    return {
        "difference": difference.interval.value,
        "low": difference.interval.low,
        "high": difference.interval.high,
        "p_value": difference.p_value,
        "finding": difference.finding.value,
    }
