"""Accuracy against tokens and against the critical path, for every strategy and budget.

Strategies choose without labels (`choose_paths`); then the choices are scored. Intervals are over
problems. The oracle is pass@N, the upper bound of any selector among N paths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import RESCORING, Strategy, StrategyParams
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.attempts import Cost as StudyCost
from pipeline_lib.study.policies import LENIENT
from pipeline_lib.study.selection import (
    CandidatePath,
    Choice,
    MajorityVote,
    make_selectors,
    mean_choice,
    mean_longest,
)
from pipeline_lib.study.statistics.pass_at_k import pass_at_k
from pipeline_lib.study.study import ALL, Arm, Contrast, Series

SEARCHES = (Strategy.BEAM, Strategy.TREE)
_VOTE = MajorityVote()
_ARMS: Mapping[Strategy, tuple[str, Mapping[str, str]]] = {
    Strategy.SINGLE: ("one path", {}),
    Strategy.ORACLE: ("oracle", {}),
    Strategy.LIKELIHOOD: ("best of N", {"scorer": "likelihood"}),
    Strategy.MEAN_LOGPROB: ("best of N", {"scorer": "mean-logprob"}),
    Strategy.SELF_CERTAINTY: ("best of N", {"scorer": "self-certainty"}),
    Strategy.MAJORITY: ("majority", {}),
    Strategy.LIKELIHOOD_VOTE: ("weighted vote", {"weight": "likelihood"}),
    Strategy.CERTAINTY_VOTE: ("weighted vote", {"weight": "self-certainty"}),
    Strategy.BORDA_VOTE: ("weighted vote", {"weight": "borda"}),
    Strategy.BEAM: ("beam", {}),
    Strategy.TREE: ("tree", {}),
}

Point = tuple[Strategy, int]
"""A strategy and its budget: paths, branches of a beam, or rollouts."""


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


def score_at(
    made: Mapping[Point, Choice], labels: ProblemLabels, point: Point, *, strict: bool
) -> float:
    """Expected score of one problem at one point."""
    strategy, budget = point
    of_paths = labels.found[point] if strategy in SEARCHES else labels.drawn
    right = [label.strict if strict else label.lenient for label in of_paths]
    if strategy is Strategy.ORACLE:
        return pass_at_k(len(right), sum(right), budget)
    expected = sum(chance for chance, ok in zip(made[point], right, strict=True) if ok)
    return min(expected, 1.0)


def expected_cost(problem: UnlabeledProblem, point: Point) -> StudyCost:
    """Expected cost of one problem; tokens that are read again to score a path count as prompt."""
    strategy, budget = point
    if strategy in SEARCHES:
        cost = problem.found[point].cost
        return StudyCost(
            drawn=cost.completion_tokens,
            prompt=cost.prompt_tokens + cost.scoring_tokens,
            critical=cost.critical_tokens,
            longest=cost.longest_tokens,
        )
    tokens = [one.tokens for one in problem.drawn.candidates]
    mean = sum(tokens) / len(tokens)
    prompt = problem.drawn.prompt_tokens
    longest = mean_longest(tokens, budget)
    return StudyCost(
        drawn=budget * mean,
        prompt=prompt + (budget * (prompt + mean) if strategy in RESCORING else 0.0),
        critical=longest,
        longest=prompt + longest,
    )


def curve_series(
    problems: Sequence[UnlabeledProblem],
    labels: Sequence[ProblemLabels],
    points: Sequence[Point],
    params: StrategyParams,
    *,
    seed: int,
) -> dict[Point, tuple[Series, Series]]:
    """The strict and the lenient accuracy of every point, with costs; BadInputError: there are no problems."""
    if not problems:
        raise BadInputError(
            "no problem has all paths that the curves need; look at the failures of engine and verifier"
        )
    made = [choose_paths(problem, points, params, seed=seed) for problem in problems]
    rows = list(zip(problems, made, labels, strict=True))

    def series(point: Point, *, strict: bool) -> Series:
        strategy, budget = point
        return Series(
            arm=arm_of(point),
            measure="accuracy",
            subset=ALL if strict else LENIENT,
            values={
                one.id: score_at(choice, own, point, strict=strict) for one, choice, own in rows
            },
            costs={one.id: expected_cost(one, point) for one in problems},
            seed_names=("compute", strategy.value, budget, "strict" if strict else LENIENT),
        )

    return {point: (series(point, strict=True), series(point, strict=False)) for point in points}


def arm_of(point: Point) -> Arm:
    """The arm of a strategy and its budget."""
    strategy, budget = point
    base, settings = _ARMS[strategy]
    paths = {} if strategy is Strategy.SINGLE else {"paths": budget}
    return Arm(base=base, settings={**settings, **paths}, upper_bound=strategy is Strategy.ORACLE)


def against_majority(series: Mapping[Point, tuple[Series, Series]]) -> list[Contrast]:
    """Each strategy minus the majority vote of the same budget."""
    found = []
    for (strategy, budget), (strict, _) in series.items():
        vote = series.get((Strategy.MAJORITY, budget))
        if vote is not None and budget > 1 and strategy is not Strategy.MAJORITY:
            names = ("compute", strategy.value, budget, "against-majority")
            found.append(Contrast(candidate=strict, reference=vote[0], seed_names=names))
    return found
