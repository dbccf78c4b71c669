"""Votes among the plain paths of judged problems: their scores and costs. Axes: P problems."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pipeline_lib.params.evaluate import Strategy as VoteRule
from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.selection import Selector, make_selectors, mean_choice, mean_longest
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.systems.pacore.trials import JudgedProblem

ORACLE = VoteRule.ORACLE
ARM_OF = {
    VoteRule.SINGLE: "one path",
    VoteRule.MAJORITY: "majority",
    VoteRule.LIKELIHOOD_VOTE: "weighted vote",
    VoteRule.LIKELIHOOD: "likelihood",
    ORACLE: "oracle",
}
"""Names of the rules in a study."""
_WITHOUT_LOGPROBS = (VoteRule.SINGLE, VoteRule.MAJORITY, ORACLE)
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
        self._rules: Mapping[VoteRule, Selector] = make_selectors(StrategyParams())
        self._scores: dict[Vote, dict[str, float]] = {}
        self._costs: dict[int, dict[str, Cost]] = {}
        self._most = min(len(problem.candidates) for problem in problems)
        known = all(one.logprob is not None for p in problems for one in p.candidates)
        self.rules = [rule for rule in ARM_OF if known or rule in _WITHOUT_LOGPROBS]
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
        if vote.rule is ORACLE:
            return pass_at_k(len(right), sum(right), vote.paths)
        choice = mean_choice(
            self._rules[vote.rule],
            problem.candidates,
            vote.paths,
            max_subsets=StrategyParams().max_subsets,
            seed=child_seed(self._seed, problem.id, vote.rule.value),
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
        """The vote with the highest accuracy among those that cost no more than ``limit``, the oracle apart.

        Of the evaluated numbers of paths and the largest that fits, at least one path: accuracy can fall with more
        paths. Of equal votes the one of fewest paths.
        """
        fitting = [n for n in range(1, self._most + 1) if self.tokens(axis, n) <= limit]
        largest = max(fitting, default=1)
        counts = [*(count for count in self.counts if count < largest), largest]
        rules = [rule for rule in self.rules if rule is not ORACLE]
        votes = [Vote(rule=rule, paths=count) for count in counts for rule in rules]
        return max(votes, key=lambda vote: round(self.accuracy(vote), _DIGITS))

    def accuracy(self, vote: Vote) -> float:
        """Mean of `scores`."""
        return float(np.mean([*self.scores(vote).values()]))


def _vote_cost(problem: JudgedProblem, count: int) -> Cost:
    tokens = [one.tokens for one in problem.candidates]
    num_requests = math.ceil(problem.num_requests * count / len(tokens))
    longest = mean_longest(tokens, count)
    return Cost(
        drawn=count * sum(tokens) / len(tokens),
        prompt=problem.prompt_tokens * num_requests / problem.num_requests,
        critical=longest,
        longest=longest,
    )
