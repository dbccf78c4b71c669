"""Votes among the plain paths of judged problems: their scores and costs. Axes: P problems."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.params.evaluate import Strategy as VoteRule
from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.selection.selectors import Selector, make_selectors
from pipeline_lib.study.selection.subsets import mean_choice, mean_longest
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.study.statistics.resampling import Floats
from pipeline_lib.systems.pacore.evaluation.outcomes import JudgedProblem
from pipeline_lib.systems.pacore.evaluation.result import Axis

ORACLE = VoteRule.ORACLE
_RULES = (VoteRule.MAJORITY, VoteRule.LIKELIHOOD_VOTE, VoteRule.LIKELIHOOD)


_DIGITS = 9
"""Votes that differ by rounding alone are equal."""


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
        self._scores: dict[tuple[VoteRule, int], Floats] = {}
        self._most = min(len(problem.candidates) for problem in problems)
        known = all(one.logprob is not None for p in problems for one in p.candidates)
        self.rules: list[VoteRule] = [VoteRule.SINGLE, *(_RULES if known else _RULES[:1]), ORACLE]
        """Without log-probabilities, only the majority."""
        self.counts = [1 << k for k in range(self._most.bit_length() - 1)]
        if self._most not in self.counts:
            self.counts.append(self._most)

    def scores(self, rule: VoteRule, count: int) -> Floats:
        """Expected score of each problem."""
        if (rule, count) not in self._scores:
            self._scores[rule, count] = np.array(
                [self._score(problem, rule, count) for problem in self._problems]
            )
        return self._scores[rule, count]

    def _score(self, problem: JudgedProblem, rule: VoteRule, count: int) -> float:
        if rule is ORACLE:
            return pass_at_k(len(problem.right), sum(problem.right), count)
        choice = mean_choice(
            self._rules[rule],
            problem.candidates,
            count,
            max_subsets=StrategyParams().max_subsets,
            seed=child_seed(self._seed, problem.id, rule.value),
        )
        return min(1.0, sum(chance for chance, ok in zip(choice, problem.right, strict=True) if ok))

    def cost(self, axis: Axis, count: int) -> float:
        """Mean cost of ``count`` paths; their prompt is read once per request."""
        return float(np.mean([_vote_cost(problem, axis, count) for problem in self._problems]))

    def largest(self, axis: Axis, limit: float) -> int:
        """The most paths that cost no more than ``limit``, at least one."""
        fitting = [n for n in range(1, self._most + 1) if self.cost(axis, n) <= limit]
        return max(fitting, default=1)

    def capped(self, axis: Axis, limit: float) -> bool:
        """The dearest vote, that of all paths, costs less than ``limit``."""
        return self.cost(axis, self._most) < limit

    def best(self, axis: Axis, limit: float) -> Vote:
        """The vote with the highest accuracy among those that cost no more than ``limit``, the oracle apart.

        Of the evaluated numbers of paths and the largest that fits: accuracy can fall with more paths. Of equal
        votes the one of fewest paths.
        """
        largest = self.largest(axis, limit)
        counts = [*(count for count in self.counts if count < largest), largest]
        rules = [rule for rule in self.rules if rule is not ORACLE]
        votes = [Vote(rule=rule, paths=count) for count in counts for rule in rules]
        return max(votes, key=lambda vote: round(self._mean(vote), _DIGITS))

    def _mean(self, vote: Vote) -> float:
        return float(self.scores(vote.rule, vote.paths).mean())


def _vote_cost(problem: JudgedProblem, axis: Axis, count: int) -> float:
    tokens = [one.tokens for one in problem.candidates]
    if axis is Axis.CRITICAL:
        return mean_longest(tokens, count)
    drawn = count * sum(tokens) / len(tokens)
    if axis is Axis.DRAWN:
        return drawn
    num_requests = math.ceil(problem.num_requests * count / len(tokens))
    return drawn + problem.prompt_tokens * num_requests / problem.num_requests
