"""Votes among the plain paths of judged problems: their scores and costs. Axes: S subsets, K paths of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.selection import (
    elect_each,
    make_selectors,
    mean_choice,
    mean_longest,
    subsets_of,
)
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.systems.pacore.parts import Parts
from pipeline_lib.systems.pacore.trials import JudgedProblem


class VoteRule(StrEnum):
    """A rule that chooses a path, or puts one together from parts.

    Values are those of `params.evaluate.Strategy`, and seed the subsets of paths.
    """

    SINGLE = "single"
    GREEDY = "greedy"
    MAJORITY = "majority"
    LIKELIHOOD_VOTE = "likelihood-vote"
    LIKELIHOOD = "likelihood"
    PARTS = "parts"
    """The most frequent text of each part."""
    STITCHED = "stitched"
    """A sound part of any path for each part, found by a check of each."""
    ORACLE = "oracle"


BOUNDS = (VoteRule.ORACLE, VoteRule.STITCHED)
ARM_OF = {
    VoteRule.SINGLE: "one path",
    VoteRule.GREEDY: "greedy",
    VoteRule.MAJORITY: "majority",
    VoteRule.LIKELIHOOD_VOTE: "weighted vote",
    VoteRule.LIKELIHOOD: "likelihood",
    VoteRule.PARTS: "part vote",
    VoteRule.STITCHED: "stitched",
    VoteRule.ORACLE: "oracle",
}
"""Names of the rules in a study."""
OF_ONE_PATH = (VoteRule.SINGLE, VoteRule.GREEDY)
_WITH_LOGPROBS = (VoteRule.LIKELIHOOD_VOTE, VoteRule.LIKELIHOOD)
_OF_PARTS = (VoteRule.PARTS, VoteRule.STITCHED)
_DIGITS = 9
"""Votes that differ by rounding alone are equal."""


class Axis(StrEnum):
    """A cost per problem, in tokens. The values are names of seeds."""

    DRAWN = "drawn tokens"
    TOTAL = "prompt and drawn tokens"
    CRITICAL = "critical path"

    def tokens(self, costs: Iterable[Cost]) -> float:
        """Mean over problems."""
        of = {Axis.DRAWN: "drawn", Axis.TOTAL: "total", Axis.CRITICAL: "critical"}[self]
        return float(np.mean([getattr(cost, of) for cost in costs]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """A rule and its number of paths."""

    rule: VoteRule
    paths: int


class Votes:
    """Scores of votes among the plain paths, computed once per rule and number of paths."""

    def __init__(self, problems: Sequence[JudgedProblem], *, seed: int) -> None:
        self._problems = problems
        self._seed = seed
        self._rules = {str(rule): one for rule, one in make_selectors(StrategyParams()).items()}
        self._scores: dict[Vote, dict[str, float]] = {}
        self._costs: dict[int, dict[str, Cost]] = {}
        self._most = min(len(problem.candidates) for problem in problems)
        known = all(one.logprob is not None for p in problems for one in p.candidates)
        left_out = {
            *(() if known else _WITH_LOGPROBS),
            *(() if all(one.parts for one in problems) else _OF_PARTS),
            *(() if all(one.greedy for one in problems) else (VoteRule.GREEDY,)),
        }
        self.rules = [rule for rule in ARM_OF if rule not in left_out]
        self.counts = [1 << k for k in range(self._most.bit_length() - 1)]
        if self._most not in self.counts:
            self.counts.append(self._most)

    def scores(self, vote: Vote) -> Mapping[str, float]:
        """Expected score of each problem."""
        if vote not in self._scores:
            self._scores[vote] = {one.id: self._score(one, vote) for one in self._problems}
        return self._scores[vote]

    def _score(self, problem: JudgedProblem, vote: Vote) -> float:
        right = [bool(one.right) for one in problem.plain]
        if vote.rule is VoteRule.ORACLE:
            return pass_at_k(len(right), sum(right), vote.paths)
        if vote.rule is VoteRule.GREEDY:
            return float(bool(problem.greedy and problem.greedy.right))
        most, seed = (
            StrategyParams().max_subsets,
            child_seed(self._seed, problem.id, vote.rule.value),
        )
        if vote.rule in _OF_PARTS:
            subsets_SK = subsets_of(len(right), vote.paths, max_subsets=most, seed=seed)
            return _part_score(problem.parts, subsets_SK, is_vote=vote.rule is VoteRule.PARTS)
        choice = mean_choice(
            self._rules[vote.rule.value],
            problem.candidates,
            vote.paths,
            max_subsets=most,
            seed=seed,
        )
        return min(1.0, sum(chance for chance, ok in zip(choice, right, strict=True) if ok))

    def costs(self, count: int) -> Mapping[str, Cost]:
        """Mean cost of ``count`` paths of each problem; their prompt is read once per request."""
        if count not in self._costs:
            self._costs[count] = {one.id: _vote_cost(one, count) for one in self._problems}
        return self._costs[count]

    def tokens(self, axis: Axis, count: int) -> float:
        """Mean cost of ``count`` paths on an axis."""
        return axis.tokens(self.costs(count).values())

    def capped(self, axis: Axis, limit: float) -> bool:
        """The dearest vote, the one of all paths, costs less than ``limit``."""
        return self.tokens(axis, self._most) < limit

    def best(self, axis: Axis, limit: float) -> Vote:
        """The vote with the highest accuracy among those that cost no more than ``limit``, bounds apart.

        Of the evaluated numbers of paths and the largest that fits, at least one path: accuracy can fall with more
        paths. Of equal votes the one of fewest paths.
        """
        fitting = [n for n in range(1, self._most + 1) if self.tokens(axis, n) <= limit]
        largest = max(fitting, default=1)
        counts = [*(count for count in self.counts if count < largest), largest]
        rules = [rule for rule in self.rules if rule not in BOUNDS]
        votes = [
            Vote(rule=rule, paths=count)
            for count in counts
            for rule in rules
            if count == 1 or rule is not VoteRule.GREEDY
        ]
        return max(votes, key=lambda vote: round(self.accuracy(vote), _DIGITS))

    def accuracy(self, vote: Vote) -> float:
        """Mean of `scores`."""
        return float(np.mean([*self.scores(vote).values()]))


def _part_score(parts: Sequence[Parts], subsets_SK: NDArray[np.intp], *, is_vote: bool) -> float:
    """Mean over subsets of K paths of the chance that all parts are sound, each elected, or found in any path."""
    scores_S = np.ones(len(subsets_SK))
    for own in zip(*parts, strict=True):
        sound_SK = np.array([one.is_sound for one in own])[subsets_SK]
        if not is_vote:
            scores_S *= sound_SK.any(1)
            continue
        known = dict.fromkeys(one.text for one in own if one.text is not None)
        places = {text: place for place, text in enumerate(known)}
        texts_SK = np.array([places.get(one.text, len(places)) for one in own])[subsets_SK]
        chances_SK = elect_each(texts_SK, np.ones(texts_SK.shape), num_answers=len(places))
        scores_S *= (chances_SK * sound_SK).sum(1)
    return float(scores_S.mean())


def _vote_cost(problem: JudgedProblem, count: int) -> Cost:
    tokens = [one.tokens for one in problem.candidates]
    longest = mean_longest(tokens, count)
    return Cost(
        drawn=count * sum(tokens) / len(tokens),
        prompt=problem.prompt_of(count),
        critical=longest,
        longest=longest,
    )
