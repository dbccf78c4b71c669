"""Votes among the rollouts of a problem: consensus over the claims, and the bound of any choice (pass@k).

A vote is for the claimed operations, right or wrong; a rollout without a claim abstains. Both estimates are
exact expectations over the subsets of k of the samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.selection.subsets import mean_longest
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.statistics.majority import Vote, majority_at_k
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.systems.apr.countdown.claims import answer_of
from pipeline_lib.systems.apr.rollouts import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteFigures:
    """k rollouts of each problem, drawn beside each other."""

    samples: int
    """k."""
    problems: int
    """Those with k rollouts that did not fail."""
    consensus: Interval
    """Accuracy of the most frequent claim; ties are split."""
    any_sample: Interval
    """pass@k, an upper bound of every choice among the samples."""
    drawn_tokens: float
    """Of all k, mean over problems."""
    critical_tokens: float
    """Of the longest of them."""


def vote_curve(rows: Sequence[Row], params: EvaluateParams, *, seed: int) -> list[VoteFigures]:
    """Votes of 1, 2, 4, ... and of all samples; none with one sample of each problem."""
    groups = _by_problem(rows)
    most = max(map(len, groups), default=0)
    if most < 2:
        return []
    sizes = [2**power for power in range(most.bit_length()) if 2**power < most]
    return [_vote(groups, k, params, seed=seed) for k in [*sizes, most]]


def consensus_scores(rows: Sequence[Row], k: int) -> dict[str, float]:
    """The expected accuracy of a vote of k, by problem with at least k rollouts that did not fail."""
    return _scores(_by_problem(rows), k, _consensus)


def any_sample_scores(rows: Sequence[Row], k: int) -> dict[str, float]:
    """pass@k, by problem with at least k rollouts that did not fail."""
    return _scores(_by_problem(rows), k, _any_sample)


def _vote(
    groups: Sequence[Sequence[Row]], k: int, params: EvaluateParams, *, seed: int
) -> VoteFigures:
    whole = [group for group in groups if len(group) >= k]

    def interval(estimate: Callable[[Sequence[Row], int], float], name: str) -> Interval:
        return score_interval(
            np.array([estimate(group, k) for group in whole]),
            params,
            seed=child_seed(seed, "apr", name, k),
        )

    drawn = [np.mean([row["tokens"]["drawn"] for row in group]) for group in whole]
    longest = [mean_longest([row["tokens"]["critical"] for row in group], k) for group in whole]
    return VoteFigures(
        samples=k,
        problems=len(whole),
        consensus=interval(_consensus, "consensus"),
        any_sample=interval(_any_sample, "any sample"),
        drawn_tokens=float(k * np.mean(drawn)),
        critical_tokens=float(np.mean(longest)),
    )


def _consensus(group: Sequence[Row], k: int) -> float:
    votes = [Vote(answer=answer_of(row["claim"]), correct=row["is_correct"]) for row in group]
    return majority_at_k(votes, k)


def _any_sample(group: Sequence[Row], k: int) -> float:
    return pass_at_k(len(group), sum(row["is_correct"] for row in group), k)


def _by_problem(rows: Sequence[Row]) -> list[list[Row]]:
    """The rollouts that did not fail, by problem."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "error" not in row:
            groups.setdefault(row["problem_id"], []).append(row)
    return [*groups.values()]


def _scores(
    groups: Sequence[Sequence[Row]], k: int, estimate: Callable[[Sequence[Row], int], float]
) -> dict[str, float]:
    return {group[0]["problem_id"]: estimate(group, k) for group in groups if len(group) >= k}
