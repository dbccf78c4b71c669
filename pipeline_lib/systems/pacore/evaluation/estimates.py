"""Accuracy of synthesis and of votes against three costs: drawn tokens, prompt and drawn tokens, critical path.

Votes choose without labels; then choices are scored. A synthesis is compared with the vote that is best on the
same problems among those that cost no more, so the comparison favours votes. Axes: P problems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.evaluate import Strategy as VoteRule
from pipeline_lib.records import Interval
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.statistics.paired import paired_difference
from pipeline_lib.study.statistics.resampling import Floats
from pipeline_lib.systems.pacore.evaluation.outcomes import JudgedProblem
from pipeline_lib.systems.pacore.evaluation.result import (
    AgainstVotes,
    Axis,
    LastCall,
    PacorePoint,
    PacoreResult,
    ReferenceCounts,
)
from pipeline_lib.systems.pacore.evaluation.votes import ORACLE, Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateContext:
    """Settings of the estimates, the same for all models."""

    num_left_out: int
    params: EvaluateParams
    seed: int


def estimate(
    models: Mapping[str, Sequence[JudgedProblem]], context: EstimateContext
) -> list[PacoreResult]:
    """Estimate, for each model, all points, the comparisons with the votes of every model, and the last calls.

    Args:
        models: the same problems by name of the model.
        context: settings.

    Raises:
        BadInputError: there are no problems.
    """
    if not all(models.values()):
        raise BadInputError(
            "no problem has all paths that the comparison needs; look at the failures of engine and verifier"
        )
    votes = {name: Votes(problems, seed=context.seed) for name, problems in models.items()}
    return [_estimate(name, problems, votes, context) for name, problems in models.items()]


def _estimate(
    model: str,
    problems: Sequence[JudgedProblem],
    votes: Mapping[str, Votes],
    context: EstimateContext,
) -> PacoreResult:
    own = votes[model]
    others = [name for name in votes if name != model]
    names = list(problems[0].outcomes)
    return PacoreResult(
        model=model,
        num_problems=len(problems),
        num_left_out=context.num_left_out,
        points=(
            *(_vote_point(own, rule, count, context) for rule in own.rules for count in own.counts),
            *(_strategy_point(problems, name, context) for name in names),
        ),
        against=tuple(
            _against(problems, votes[voters], name, axis, voters=voters, context=context)
            for voters in (model, *others)
            for name in names
            for axis in Axis
        ),
        references=tuple(_reference_counts(problems, name) for name in names),
        last_calls=tuple(_last_call(problems, name) for name in names),
    )


def _cost(cost: Cost, axis: Axis) -> float:
    return {
        Axis.DRAWN: cost.completion_tokens,
        Axis.TOTAL: cost.prompt_tokens + cost.completion_tokens,
        Axis.CRITICAL: cost.critical_tokens,
    }[axis]


def _right(problems: Sequence[JudgedProblem], name: str) -> Floats:
    return np.array([float(problem.outcomes[name].right) for problem in problems])


def _strategy_cost(problems: Sequence[JudgedProblem], name: str, axis: Axis) -> float:
    return float(np.mean([_cost(problem.outcomes[name].cost, axis) for problem in problems]))


def _vote_point(votes: Votes, rule: VoteRule, count: int, context: EstimateContext) -> PacorePoint:
    return PacorePoint(
        name=rule.value,
        paths=count,
        accuracy=_interval(votes.scores(rule, count), context, rule.value, count),
        costs={axis: votes.cost(axis, count) for axis in Axis},
        is_vote=True,
        upper_bound=rule is ORACLE,
    )


def _strategy_point(
    problems: Sequence[JudgedProblem], name: str, context: EstimateContext
) -> PacorePoint:
    calls = np.mean([problem.outcomes[name].cost.calls for problem in problems])
    return PacorePoint(
        name=name,
        paths=round(float(calls)),
        accuracy=_interval(_right(problems, name), context, name, 0),
        costs={axis: _strategy_cost(problems, name, axis) for axis in Axis},
        is_vote=False,
    )


def _interval(scores_P: Floats, context: EstimateContext, name: str, count: int) -> Interval:
    return score_interval(
        scores_P, context.params, seed=child_seed(context.seed, "pacore", name, count)
    )


def _against(
    problems: Sequence[JudgedProblem],
    votes: Votes,
    name: str,
    axis: Axis,
    *,
    voters: str,
    context: EstimateContext,
) -> AgainstVotes:
    limit = _strategy_cost(problems, name, axis)
    vote = votes.best(axis, limit)
    return AgainstVotes(
        strategy=name,
        axis=axis,
        voters=voters,
        vote=vote.rule.value,
        paths=vote.paths,
        vote_cost=votes.cost(axis, vote.paths),
        capped=votes.capped(axis, limit),
        difference=paired_difference(
            votes.scores(vote.rule, vote.paths),
            _right(problems, name),
            context.params,
            seed=child_seed(context.seed, "pacore-against", name, axis.value),
        ),
    )


def _reference_counts(problems: Sequence[JudgedProblem], name: str) -> ReferenceCounts:
    outcomes = [problem.outcomes[name] for problem in problems]
    calls = sum(one.later_calls for one in outcomes)
    return ReferenceCounts(
        strategy=name,
        shown=sum(one.references_shown for one in outcomes) / calls,
        dropped=sum(one.references_dropped for one in outcomes) / calls,
    )


def _last_call(problems: Sequence[JudgedProblem], name: str) -> LastCall:
    outcomes = [(problem, problem.outcomes[name]) for problem in problems]
    seen = [(problem, one) for problem, one in outcomes if one.references_right]
    all_wrong = [(problem, one) for problem, one in seen if not any(one.references_right)]
    some_right = [one for _, one in seen if any(one.references_right)]
    return LastCall(
        strategy=name,
        all_wrong=len(all_wrong),
        emergent=_share([one.right for _, one in all_wrong]),
        # The last plain path is in no first round, so no reference depends on it.
        further_path=_share([problem.right[-1] for problem, _ in all_wrong]),
        some_right=len(some_right),
        lost=_share([not one.right for one in some_right]),
    )


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
