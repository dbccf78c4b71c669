"""Accuracy against tokens and against the critical path, for every strategy and budget.

Strategies choose without labels (`choose_paths`); then the choices are scored. Intervals are over
problems. The oracle is pass@N, the upper bound of any selector among N paths.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import RESCORING, EvaluateParams, Strategy, StrategyParams
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.curves.result import ComputeCurves, CurvePoint, Point
from pipeline_lib.study.selection.selectors import (
    CandidatePath,
    Choice,
    MajorityVote,
    make_selectors,
)
from pipeline_lib.study.selection.subsets import mean_choice, mean_longest
from pipeline_lib.study.statistics.intervals import score_interval
from pipeline_lib.study.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.study.statistics.pass_at_k import pass_at_k

SEARCHES = (Strategy.BEAM, Strategy.TREE)
_VOTE = MajorityVote()


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Scores of a path; kept apart from the candidates."""

    strict: bool
    lenient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPaths:
    """The independent paths of one problem."""

    candidates: tuple[CandidatePath, ...]
    prompt_tokens: int
    """Of the problem's prompt, which is read once for all paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedPaths:
    """The paths of one search for one problem at one budget."""

    candidates: tuple[CandidatePath, ...]
    """The best path of a beam search; the rollouts so far of a tree search."""
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlabeledProblem:
    """One problem without its labels."""

    id: str
    drawn: DrawnPaths
    found: Mapping[Point, SearchedPaths]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemLabels:
    """The labels of one problem, in the order of its candidates."""

    drawn: tuple[Label, ...]
    found: Mapping[Point, tuple[Label, ...]]


def curve_points(params: StrategyParams) -> list[Point]:
    """Every strategy at the budgets that are meaningful for it."""
    points = []
    for strategy in params.strategies:
        budgets = sorted(params.budgets)
        if strategy is Strategy.SINGLE:
            budgets = [1]
        elif strategy is Strategy.BEAM:
            budgets = params.beam_budgets
        points += [(strategy, budget) for budget in budgets]
    return points


def choose_paths(
    problem: UnlabeledProblem, points: Sequence[Point], params: StrategyParams, *, seed: int
) -> dict[Point, Choice]:
    """The label-free choice of each strategy except the oracle, at each point."""
    rules = make_selectors(params)
    made: dict[Point, Choice] = {}
    for strategy, budget in points:
        if strategy in SEARCHES:
            made[strategy, budget] = _VOTE.choose(problem.found[strategy, budget].candidates)
        elif strategy is not Strategy.ORACLE:
            made[strategy, budget] = mean_choice(
                rules[strategy],
                problem.drawn.candidates,
                budget,
                max_subsets=params.max_subsets,
                seed=child_seed(seed, problem.id, strategy.value),
            )
    return made


def expected_scores(
    made: Mapping[Point, Choice], labels: ProblemLabels, points: Sequence[Point], *, strict: bool
) -> list[float]:
    """Expected score of one problem at each point."""
    return [_score(made, labels, point, strict=strict) for point in points]


def _score(
    made: Mapping[Point, Choice], labels: ProblemLabels, point: Point, *, strict: bool
) -> float:
    strategy, budget = point
    of_paths = labels.found[point] if strategy in SEARCHES else labels.drawn
    right = [label.strict if strict else label.lenient for label in of_paths]
    if strategy is Strategy.ORACLE:
        return pass_at_k(len(right), sum(right), budget)
    expected = sum(chance for chance, ok in zip(made[point], right, strict=True) if ok)
    return min(expected, 1.0)


def expected_tokens(problem: UnlabeledProblem, point: Point) -> tuple[float, float, float, float]:
    """Expected completion, critical, prompt and scoring tokens of one problem."""
    strategy, budget = point
    if strategy in SEARCHES:
        cost = problem.found[point].cost
        return (
            cost.completion_tokens,
            cost.critical_tokens,
            cost.prompt_tokens,
            cost.scoring_tokens,
        )
    tokens = [one.tokens for one in problem.drawn.candidates]
    mean = sum(tokens) / len(tokens)
    prompt = problem.drawn.prompt_tokens
    scoring = budget * (prompt + mean) if strategy in RESCORING else 0.0
    return budget * mean, mean_longest(tokens, budget), prompt, scoring


def estimate_curves(
    problems: Sequence[UnlabeledProblem],
    labels: Sequence[ProblemLabels],
    points: Sequence[Point],
    params: StrategyParams,
    context: "CurveContext",
) -> ComputeCurves:
    """Estimate all points with their intervals.

    Raises:
        BadInputError: there are no problems.
    """
    if not problems:
        raise BadInputError(
            "no problem has all paths that the curves need; look at the failures of engine and verifier"
        )
    made = [choose_paths(problem, points, params, seed=context.seed) for problem in problems]
    pairs = list(zip(made, labels, strict=True))
    strict_PX = np.array([expected_scores(mine, own, points, strict=True) for mine, own in pairs])
    lenient_PX = np.array([expected_scores(mine, own, points, strict=False) for mine, own in pairs])
    return ComputeCurves(
        policy=context.policy,
        model=context.model,
        num_problems=len(problems),
        num_left_out=context.num_left_out,
        points=tuple(_points(problems, points, strict_PX, lenient_PX, context)),
        seed=context.seed,
        settings=params.model_dump(mode="json"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveContext:
    """Policy of the curves, and settings of the intervals."""

    policy: str
    model: str
    num_left_out: int
    evaluate: EvaluateParams
    """resamples and confidence_level."""
    seed: int


def _points(
    problems: Sequence[UnlabeledProblem],
    points: Sequence[Point],
    strict_PX: np.ndarray,
    lenient_PX: np.ndarray,
    context: CurveContext,
) -> Iterator[CurvePoint]:
    for column, (strategy, budget) in enumerate(points):
        strict, lenient = (
            score_interval(
                scores_PX[:, column],
                context.evaluate,
                seed=child_seed(context.seed, "compute", strategy.value, budget, name),
            )
            for name, scores_PX in (("strict", strict_PX), ("lenient", lenient_PX))
        )
        costs_P4 = np.array([expected_tokens(problem, (strategy, budget)) for problem in problems])
        completion, critical, prompt, scoring = costs_P4.mean(axis=0).tolist()
        yield CurvePoint(
            strategy=strategy,
            budget=budget,
            strict=strict,
            lenient=lenient,
            completion_tokens=completion,
            critical_tokens=critical,
            prompt_tokens=prompt,
            scoring_tokens=scoring,
            upper_bound=strategy is Strategy.ORACLE,
            against_majority=_against_majority(points, strict_PX, column, context),
        )


def _against_majority(
    points: Sequence[Point], strict_PX: np.ndarray, column: int, context: CurveContext
) -> PairedDifference | None:
    strategy, budget = points[column]
    votes = (Strategy.MAJORITY, budget)
    if votes not in points or budget == 1 or strategy is Strategy.MAJORITY:
        return None
    return paired_difference(
        strict_PX[:, points.index(votes)],
        strict_PX[:, column],
        context.evaluate,
        seed=child_seed(context.seed, "compute", strategy.value, budget, "against-majority"),
    )
