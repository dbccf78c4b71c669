"""Which of a problem's paths is handed in: best-of-N and votes that no label ever reaches.

A candidate holds what a deployed system would know of a path, and nothing else: there is no gold,
no verdict and no text from which one could be made. A choice is a distribution over the candidates,
so that ties are broken evenly and without a seed.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.errors import BadInputError
from pipeline_lib.evaluation.statistics.majority import win_chances
from pipeline_lib.params.evaluate import Strategy, StrategyParams

Choice = list[float]
"""The chance of each candidate to be handed in; they sum to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One path as a selector sees it."""

    answer: int | None
    """Which of the problem's distinct answers it gives, equivalent ones being one; None: none."""
    tokens: int
    logprob: float | None
    """Sum of the natural-log probabilities of its tokens; None where the engine reports none."""
    self_certainty: float | None
    """Mean divergence of its next-token distributions from uniform, in nats; None: not measured."""


Measure = Callable[[Candidate], float]


class Selector(Protocol):
    """A rule of choice."""

    def choose(self, candidates: Sequence[Candidate]) -> Choice:
        """The choice among all of them, of which there is at least one."""
        ...

    def mean_choice(self, candidates: Sequence[Candidate], size: int) -> Choice | None:
        """The mean of `choose` over all subsets of ``size``, exactly; None without a formula."""
        ...


@dataclass(frozen=True, slots=True)
class AnyPath:
    """One path at random. Implements Selector."""

    def choose(self, candidates: Sequence[Candidate]) -> Choice:
        """Each is as likely."""
        return [1 / len(candidates)] * len(candidates)

    def mean_choice(self, candidates: Sequence[Candidate], _size: int) -> Choice:
        """Every candidate is in as many subsets as any other."""
        return self.choose(candidates)


@dataclass(frozen=True, slots=True)
class BestOf:
    """The path with the largest measure. Implements Selector."""

    measure: Measure

    def choose(self, candidates: Sequence[Candidate]) -> Choice:
        """All of the chance to the best; equals share it."""
        values = list(map(self.measure, candidates))
        return _shared([value == max(values) for value in values])

    def mean_choice(self, candidates: Sequence[Candidate], size: int) -> Choice:
        """A value is the best of a subset that holds one like it and none above it.

        Of n candidates, with b above and t equal, C(n - b, k) - C(n - b - t, k) subsets are such.
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

    def choose(self, candidates: Sequence[Candidate]) -> Choice:
        """One path, one vote."""
        return _elected(candidates, [1.0] * len(candidates))

    def mean_choice(self, candidates: Sequence[Candidate], size: int) -> Choice:
        """An answer's chance to lead, shared by its candidates, who are in as many subsets each."""
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

    weigh: Callable[[Sequence[Candidate]], Sequence[float]]
    """The weight of each candidate among these; none is negative."""

    def choose(self, candidates: Sequence[Candidate]) -> Choice:
        """A path's vote weighs as much as it does itself."""
        return _elected(candidates, self.weigh(candidates))

    def mean_choice(self, _candidates: Sequence[Candidate], _size: int) -> None:
        """There is no formula."""
        return


def _elected(candidates: Sequence[Candidate], weights: Sequence[float]) -> Choice:
    """Leading answers share the chance evenly, then the candidates of each.

    A candidate without an answer casts no vote; if none has one, all are alike.
    """
    votes: dict[int, list[float]] = {}
    for one, weight in zip(candidates, weights, strict=True):
        if one.answer is not None:
            votes.setdefault(one.answer, []).append(weight)
    if not votes:
        return [1 / len(candidates)] * len(candidates)
    # fsum, so that the order of the candidates makes no winner.
    totals = {answer: math.fsum(given) for answer, given in votes.items()}
    lead = max(totals.values())
    leaders = {answer for answer, total in totals.items() if total == lead}
    return [
        1 / len(leaders) / len(votes[one.answer]) if one.answer in leaders else 0.0
        for one in candidates
    ]


def _shared(winners: Sequence[bool]) -> Choice:
    return [won / sum(winners) for won in winners]


def likelihood(candidate: Candidate) -> float:
    """Log-probability of the whole path: it favours short ones."""
    if candidate.logprob is None:
        raise BadInputError(
            "a path has no log-probability, the engine reported none; leave out the strategies "
            "that need it (likelihood, mean-logprob, likelihood-vote), or use another engine"
        )
    return candidate.logprob


def mean_logprob(candidate: Candidate) -> float:
    """Log-probability a token."""
    return likelihood(candidate) / max(candidate.tokens, 1)


def self_certainty(candidate: Candidate) -> float:
    """Source: Kang et al. 2025, arXiv:2502.18581."""
    assert candidate.self_certainty is not None
    return candidate.self_certainty


def borda_weights(candidates: Sequence[Candidate], *, power: float) -> list[float]:
    """Rank r of n by self-certainty gives (n - r + 1)^power votes; equals get the mean of theirs.

    Source: Kang et al. 2025, arXiv:2502.18581, Borda voting.
    """
    values = list(map(self_certainty, candidates))
    counts = Counter(values)
    votes: dict[float, float] = {}
    above = 0
    for value in sorted(counts, reverse=True):
        equal = counts[value]
        ranks = range(above + 1, above + equal + 1)
        votes[value] = math.fsum((len(values) - rank + 1) ** power for rank in ranks) / equal
        above += equal
    return [votes[value] for value in values]


def selectors(params: StrategyParams) -> Mapping[Strategy, Selector]:
    """The selectors of paths that were drawn independently, by the name of their strategy."""
    return {
        Strategy.SINGLE: AnyPath(),
        Strategy.LIKELIHOOD: BestOf(likelihood),
        Strategy.MEAN_LOGPROB: BestOf(mean_logprob),
        Strategy.SELF_CERTAINTY: BestOf(self_certainty),
        Strategy.MAJORITY: MajorityVote(),
        Strategy.LIKELIHOOD_VOTE: WeightedVote(
            lambda candidates: [math.exp(mean_logprob(one)) for one in candidates]
        ),
        Strategy.CERTAINTY_VOTE: WeightedVote(
            lambda candidates: list(map(self_certainty, candidates))
        ),
        Strategy.BORDA_VOTE: WeightedVote(
            lambda candidates: borda_weights(candidates, power=params.borda_power)
        ),
    }
