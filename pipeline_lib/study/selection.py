"""Label-free selection of one of a problem's paths: best-of-N and votes.

A candidate holds only what a deployed system would have: no gold, no verdict, and no text from
which a verdict could be computed. A choice is a distribution over the candidates, so that ties are
split evenly without a seed. Its mean over all subsets of N of the n paths is exact if there is a closed
form or if the subsets are few, else over seeded random subsets.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.seeding import child_generator
from pipeline_lib.study.statistics.majority import win_chances

Choice = list[float]
"""Selection probability of each candidate; sums to 1."""

Subsets = Callable[[], NDArray[np.intp]]
"""Makes subsets [S, K] of the candidates by their places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePath:
    """Label-free features of one path."""

    answer: int | None
    """Number of its answer among the problem's distinct answers; None without an answer."""
    tokens: int
    logprob: float | None
    """Sum of token log-probabilities (natural log); None if the engine reports none."""
    self_certainty: float | None
    """Mean KL divergence of next-token distributions from uniform, nats; None if not measured."""
    reward: float | None = None
    """By a reward model; None if not measured."""


Measure = Callable[[CandidatePath], float]


class Selector(Protocol):
    """A selection rule."""

    def choose(self, candidates: Sequence[CandidatePath]) -> Choice:
        """The choice among all candidates, at least one."""

    def mean_choice(
        self, candidates: Sequence[CandidatePath], size: int, subsets: Subsets
    ) -> Choice:
        """Mean of `choose` over all subsets of ``size``; without a closed form, over ``subsets``."""


@dataclass(frozen=True, slots=True)
class BestOf:
    """The path with the largest measure. Implements Selector."""

    measure: Measure

    def choose(self, candidates: Sequence[CandidatePath]) -> Choice:
        """The best candidate; ties are split."""
        values = list(map(self.measure, candidates))
        best = max(values)
        return [(value == best) / values.count(best) for value in values]

    def mean_choice(
        self, candidates: Sequence[CandidatePath], size: int, _subsets: Subsets
    ) -> Choice:
        """Exact, by counting the subsets in which a value is the maximum.

        With b of n candidates above and t equal, these are C(n - b, k) - C(n - b - t, k).
        """
        values = list(map(self.measure, candidates))
        counts = Counter(values)
        chances: dict[float, float] = {}
        left = len(values)
        for value in sorted(counts, reverse=True):
            equal = counts[value]
            subsets = math.comb(left, size) - math.comb(left - equal, size)
            chances[value] = subsets / math.comb(len(values), size) / equal
            left -= equal
        return [chances[value] for value in values]


@dataclass(frozen=True, slots=True)
class MajorityVote:
    """A path with the most frequent answer. Implements Selector.

    Source: Wang et al. 2022, arXiv:2203.11171 (self-consistency).
    """

    def choose(self, candidates: Sequence[CandidatePath]) -> Choice:
        """One vote per path."""
        return elect([one.answer for one in candidates], [1.0] * len(candidates))

    def mean_choice(
        self, candidates: Sequence[CandidatePath], size: int, _subsets: Subsets
    ) -> Choice:
        """Exact: an answer's probability to win, split evenly among its candidates."""
        counts = Counter(one.answer for one in candidates if one.answer is not None)
        num_silent = len(candidates) - counts.total()
        names = list(counts)
        wins = win_chances([counts[name] for name in names], num_silent=num_silent, k=size)
        shares = {name: win / counts[name] for name, win in zip(names, wins, strict=True)}
        all_silent = math.comb(num_silent, size) / math.comb(len(candidates), size)
        return [
            shares[one.answer] if one.answer is not None else all_silent / num_silent
            for one in candidates
        ]


@dataclass(frozen=True, slots=True)
class WeightedVote:
    """A path with the answer of the largest total weight. Implements Selector."""

    measure: Measure
    weigh: Callable[[Sequence[float]], Sequence[float]] | None = None
    """Weights of the voters from their measures; None: the measures, which are not negative."""

    def choose(self, candidates: Sequence[CandidatePath]) -> Choice:
        """One weighted vote per path."""
        values = list(map(self.measure, candidates))
        return elect(
            [one.answer for one in candidates], self.weigh(values) if self.weigh else values
        )

    def mean_choice(
        self, candidates: Sequence[CandidatePath], _size: int, subsets: Subsets
    ) -> Choice:
        """No closed form."""
        subsets_SK = subsets()
        weights_SK = np.array(list(map(self.measure, candidates)))[subsets_SK]
        if self.weigh:
            weights_SK = np.array([self.weigh(weights_K) for weights_K in weights_SK.tolist()])
        names = list(dict.fromkeys(one.answer for one in candidates if one.answer is not None))
        places = {name: place for place, name in enumerate(names)} | {None: len(names)}
        answers_SK = np.array([places[one.answer] for one in candidates])[subsets_SK]
        chances_SK = elect_each(answers_SK, weights_SK, num_answers=len(names))
        totals = np.bincount(subsets_SK.ravel(), chances_SK.ravel(), minlength=len(candidates))
        found: Choice = (totals / len(subsets_SK)).tolist()
        return found


def elect(answers: Sequence[int | None], weights: Sequence[float]) -> Choice:
    """Split the probability evenly among the leading answers, then among the candidates of each.

    A candidate without an answer (None) does not vote; without any answer the choice is uniform.
    """
    votes: dict[int, list[float]] = {}
    for answer, weight in zip(answers, weights, strict=True):
        if answer is not None:
            votes.setdefault(answer, []).append(weight)
    if not votes:
        return [1 / len(answers)] * len(answers)
    # fsum: the winner must not depend on the order of the candidates.
    totals = {answer: math.fsum(given) for answer, given in votes.items()}
    lead = max(totals.values())
    leaders = {answer for answer, total in totals.items() if total == lead}
    return [
        1 / len(leaders) / len(votes[answer]) if answer in leaders else 0.0 for answer in answers
    ]


def elect_each(
    answers_SK: NDArray[np.intp], weights_SK: NDArray[np.float64], *, num_answers: int
) -> NDArray[np.float64]:
    """`elect` in each of S sets of K candidates; the answer ``num_answers`` stands for none."""
    order_SK = weights_SK.argsort(axis=1)
    shape = len(answers_SK), num_answers + 1
    cells_SK = np.arange(shape[0])[:, None] * shape[1] + answers_SK
    # Sums in ascending order: the winner must not depend on the order of the candidates.
    sorted_N, ascending_N = (
        np.take_along_axis(each_SK, order_SK, axis=1).ravel() for each_SK in (cells_SK, weights_SK)
    )
    votes_SA = np.bincount(sorted_N, ascending_N, minlength=math.prod(shape)).reshape(shape)
    voters_SA = np.bincount(sorted_N, minlength=math.prod(shape)).reshape(shape)
    has_votes_SA = voters_SA > 0
    has_votes_SA[:, num_answers] &= ~has_votes_SA[:, :num_answers].any(axis=1)
    votes_SA[~has_votes_SA] = -math.inf
    leads_SA = has_votes_SA & (votes_SA == votes_SA.max(axis=1, keepdims=True))
    chances_SA = leads_SA / leads_SA.sum(axis=1, keepdims=True) / np.maximum(voters_SA, 1)
    chances_SK: NDArray[np.float64] = chances_SA.ravel()[cells_SK]
    return chances_SK


def likelihood(candidate: CandidatePath) -> float:
    """Log-probability of the whole path; favours short paths."""
    if candidate.logprob is None:
        raise BadInputError(
            "a path has no log-probability, the engine reported none; leave out the strategies "
            "that need it (likelihood, mean-logprob, likelihood-vote), or use another engine"
        )
    return candidate.logprob


def mean_logprob(candidate: CandidatePath) -> float:
    """Log-probability per token."""
    return likelihood(candidate) / max(candidate.tokens, 1)


def self_certainty(candidate: CandidatePath) -> float:
    """Source: Kang et al. 2025, arXiv:2502.18581."""
    assert candidate.self_certainty is not None
    return candidate.self_certainty


def reward(candidate: CandidatePath) -> float:
    """By a reward model."""
    assert candidate.reward is not None
    return candidate.reward


def borda_weights(values: Sequence[float], *, power: float) -> list[float]:
    """Rank r of n by value has weight (n - r + 1)^power; ties get the mean weight.

    Source: Kang et al. 2025, arXiv:2502.18581, Borda voting.
    """
    counts = Counter(values)
    votes: dict[float, float] = {}
    above = 0
    for value in sorted(counts, reverse=True):
        equal = counts[value]
        ranks = range(above + 1, above + equal + 1)
        votes[value] = math.fsum((len(values) - rank + 1) ** power for rank in ranks) / equal
        above += equal
    return [votes[value] for value in values]


def make_selectors(params: StrategyParams) -> Mapping[Strategy, Selector]:
    """Selectors among independent paths, by strategy."""
    return {
        Strategy.SINGLE: BestOf(lambda _: 0.0),  # all tie
        Strategy.LIKELIHOOD: BestOf(likelihood),
        Strategy.MEAN_LOGPROB: BestOf(mean_logprob),
        Strategy.SELF_CERTAINTY: BestOf(self_certainty),
        Strategy.REWARD: BestOf(reward),
        Strategy.MAJORITY: MajorityVote(),
        Strategy.LIKELIHOOD_VOTE: WeightedVote(lambda one: math.exp(mean_logprob(one))),
        Strategy.CERTAINTY_VOTE: WeightedVote(self_certainty),
        Strategy.BORDA_VOTE: WeightedVote(
            self_certainty, partial(borda_weights, power=params.borda_power)
        ),
    }


def mean_choice(
    selector: Selector,
    candidates: Sequence[CandidatePath],
    size: int,
    *,
    max_subsets: int,
    seed: int,
) -> Choice:
    """Selection probability of each candidate in a random subset of ``size``.

    Beyond ``max_subsets`` subsets this many are drawn at random with ``seed``.

    Raises:
        BadInputError: fewer than ``size`` candidates.
    """
    if not 1 <= size <= len(candidates):
        raise BadInputError(f"a choice from {size} of {len(candidates)} paths; draw more paths")
    if size == len(candidates):
        return selector.choose(candidates)
    subsets = partial(subsets_of, len(candidates), size, max_subsets=max_subsets, seed=seed)
    return selector.mean_choice(candidates, size, subsets)


def subsets_of(count: int, size: int, *, max_subsets: int, seed: int) -> NDArray[np.intp]:
    """All subsets [S, K] of ``size`` of ``count`` places, or ``max_subsets`` random ones if there are more."""
    if math.comb(count, size) <= max_subsets:
        return np.array(list(itertools.combinations(range(count), size)))
    generator = child_generator(seed, "subsets", size)
    return generator.permuted(np.tile(np.arange(count), (max_subsets, 1)), axis=1)[:, :size]


def mean_longest(tokens: Sequence[int], size: int) -> float:
    """Exact expected maximum of the lengths in a random subset of ``size``.

    The r-th shortest (r from 1) is the longest of C(r - 1, size - 1) subsets.
    """
    subsets = math.comb(len(tokens), size)
    return (
        sum(length * math.comb(rank, size - 1) for rank, length in enumerate(sorted(tokens)))
        / subsets
    )
