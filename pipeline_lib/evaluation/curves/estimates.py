"""Accuracy against tokens and against the critical path, for every strategy and budget.

First each strategy chooses, blind: what a path is worth is not known here (`choices`). Then the
choices are scored. The problem is the unit of every interval. The oracle has no choice of its own:
it is pass@N, the bound that a perfect selector of N paths would reach.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_lib.errors import BadInputError
from pipeline_lib.evaluation.curves.result import ComputeCurves, CurvePoint, Point
from pipeline_lib.evaluation.selection.selectors import Candidate, Choice, MajorityVote, selectors
from pipeline_lib.evaluation.selection.subsets import mean_choice, mean_longest
from pipeline_lib.evaluation.statistics.intervals import score_interval
from pipeline_lib.evaluation.statistics.paired import PairedDifference, paired_difference
from pipeline_lib.evaluation.statistics.pass_at_k import pass_at_k
from pipeline_lib.params.evaluate import RESCORING, Strategy, StrategyParams
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.seeding import child_seed

SEARCHES = (Strategy.BEAM, Strategy.TREE)
_VOTE = MajorityVote()


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a path is worth; kept away from candidates."""

    strict: bool
    lenient: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The n independent paths of one problem."""

    candidates: tuple[Candidate, ...]
    prompt_tokens: int
    """Of the problem; it was read once for all paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one search has of one problem at one budget."""

    candidates: tuple[Candidate, ...]
    """Of the beam search its best path alone, of the tree search its rollouts so far."""
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemCompute:
    """One problem without its labels."""

    id: str
    drawn: Drawn
    found: Mapping[Point, Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemLabels:
    """The labels of one problem, in the order of its candidates."""

    drawn: tuple[Label, ...]
    found: Mapping[Point, tuple[Label, ...]]


def curve_points(params: StrategyParams) -> list[Point]:
    """Every strategy at every budget at which it is something of its own."""
    points = []
    for strategy in params.strategies:
        budgets = sorted(params.budgets)
        if strategy is Strategy.SINGLE:
            budgets = [1]
        elif strategy is Strategy.BEAM:
            budgets = params.beam_budgets
        points += [(strategy, budget) for budget in budgets]
    return points


def choices(
    problem: ProblemCompute, points: Sequence[Point], params: StrategyParams, *, seed: int
) -> dict[Point, Choice]:
    """What each strategy hands in at each point, as chances of the candidates; no label is seen.

    The oracle is not among them.
    """
    rules = selectors(params)
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


def score(
    made: Mapping[Point, Choice], labels: ProblemLabels, points: Sequence[Point], *, strict: bool
) -> list[float]:
    """The expected score of one problem at each point."""
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


def point_cost(problem: ProblemCompute, point: Point) -> tuple[float, float, float, float]:
    """Completion, critical, prompt and scoring tokens of one problem, expected over subsets."""
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


def compute_curves(
    problems: Sequence[ProblemCompute],
    labels: Sequence[ProblemLabels],
    points: Sequence[Point],
    params: StrategyParams,
    measure: "Measured",
) -> ComputeCurves:
    """All points with their intervals.

    Raises:
        BadInputError: no problem is left.
    """
    if not problems:
        raise BadInputError(
            "no problem has all paths that the curves need; look at the failures of engine and verifier"
        )
    made = [choices(problem, points, params, seed=measure.seed) for problem in problems]
    pairs = list(zip(made, labels, strict=True))
    strict_PX = np.array([score(mine, own, points, strict=True) for mine, own in pairs])
    lenient_PX = np.array([score(mine, own, points, strict=False) for mine, own in pairs])
    return ComputeCurves(
        policy=measure.policy,
        model=measure.model,
        num_problems=len(problems),
        num_left_out=measure.num_left_out,
        points=tuple(_points(problems, points, strict_PX, lenient_PX, measure)),
        seed=measure.seed,
        settings=params.model_dump(mode="json"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Of which policy the curves are, and how intervals are made."""

    policy: str
    model: str
    num_left_out: int
    resamples: int
    level: float
    seed: int


def _points(
    problems: Sequence[ProblemCompute],
    points: Sequence[Point],
    strict_PX: np.ndarray,
    lenient_PX: np.ndarray,
    measure: Measured,
) -> Iterator[CurvePoint]:
    for column, (strategy, budget) in enumerate(points):
        strict, lenient = (
            score_interval(
                scores_PX[:, column],
                resamples=measure.resamples,
                level=measure.level,
                seed=child_seed(measure.seed, "compute", strategy.value, budget, name),
            )
            for name, scores_PX in (("strict", strict_PX), ("lenient", lenient_PX))
        )
        costs_P4 = np.array([point_cost(problem, (strategy, budget)) for problem in problems])
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
            against_majority=_against_majority(points, strict_PX, column, measure),
        )


def _against_majority(
    points: Sequence[Point], strict_PX: np.ndarray, column: int, measure: Measured
) -> PairedDifference | None:
    strategy, budget = points[column]
    votes = (Strategy.MAJORITY, budget)
    if votes not in points or budget == 1 or strategy is Strategy.MAJORITY:
        return None
    return paired_difference(
        strict_PX[:, points.index(votes)],
        strict_PX[:, column],
        resamples=measure.resamples,
        level=measure.level,
        seed=child_seed(measure.seed, "compute", strategy.value, budget, "against-majority"),
    )
