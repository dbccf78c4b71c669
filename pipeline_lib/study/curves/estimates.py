"""Accuracy against tokens and against the critical path, for every strategy and budget, from stored tables.

Strategies choose without labels (`choose_paths`); then the choices are scored. Intervals are over
problems. The oracle is pass@N, the upper bound of any selector among N paths.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import SCORING, Strategy, StrategyParams
from pipeline_lib.records import Group, JudgedPath
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.seeding import child_seed
from pipeline_lib.study.attempts import Cost as StudyCost
from pipeline_lib.study.curves.path_measures import PathMeasure
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
from pipeline_lib.verdicts import Verdict

SEARCHES = (Strategy.BEAM, Strategy.TREE)
_VOTE = MajorityVote()
_ARMS: Mapping[Strategy, tuple[str, Mapping[str, str]]] = {
    Strategy.SINGLE: ("one path", {}),
    Strategy.ORACLE: ("oracle", {}),
    Strategy.REWARD: ("best of N", {"scorer": "reward"}),
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
class Candidates:
    """The paths of one problem without their labels."""

    id: str
    prompt_tokens: int
    """Of the problem's prompt, which is read once for all independent paths."""
    drawn: tuple[CandidatePath, ...]
    """Independent paths."""
    found: Mapping[Point, tuple[CandidatePath, ...]]
    """By search: the best path of a beam search, the rollouts so far of a tree search."""
    costs: Mapping[Point, Cost]
    """By search."""


Labels = Mapping[Point | None, Sequence[Verdict]]
"""Verdicts on the paths of one problem, in the order of its candidates: by search, None for the independent paths."""


Key = tuple[str, int]
"""Problem id and path index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTable:
    """Judged paths of the independent draw or of one search, with their label-free measures."""

    groups: Mapping[str, Group]
    """By problem."""
    measures: Mapping[Key, PathMeasure]
    costs: Mapping[Key, Cost]
    """Empty for the independent draw."""


def join_tables(
    groups: Iterable[Group],
    measures: Iterable[Mapping[str, Any]],
    costs: Iterable[Mapping[str, Any]] = (),
) -> PathTable:
    """Join the rows of the stored tables."""
    known = [PathMeasure.from_row(dict(row)) for row in measures]
    return PathTable(
        groups={group.problem.id: group for group in groups},
        measures={(one.problem_id, one.index): one for one in known},
        costs={(row["problem_id"], row["index"]): read_cost(row) for row in costs},
    )


def read_cost(row: Mapping[str, Any]) -> Cost:
    """The cost in a row of a search's table."""
    return Cost(**{name: row[name] for name in Cost.__dataclass_fields__})


def read_candidates(
    drawn: PathTable, searches: Mapping[Point, PathTable], *, num_paths: int
) -> list[tuple[Candidates, Labels]]:
    """The problems with ``num_paths`` scored independent paths, and scored paths of every search.

    Args:
        drawn: the independent paths.
        searches: the table that each point of a search is read from.
        num_paths: required independent paths per problem.
    """
    found: list[tuple[Candidates, Labels]] = []
    for name, group in drawn.groups.items():
        members = sorted(group.scored(), key=lambda one: one.path.index)[:num_paths]
        parts = {point: _part(table, name, point) for point, table in searches.items()}
        if len(members) < num_paths or not all(parts.values()):
            continue
        candidates = Candidates(
            id=name,
            prompt_tokens=members[0].path.prompt_tokens,
            drawn=tuple(_candidate(one, drawn) for one in members),
            found={
                point: tuple(_candidate(one, searches[point]) for one in part)
                for point, part in parts.items()
            },
            costs={point: _cost(searches[point], name, point) for point in parts},
        )
        labels: dict[Point | None, list[Verdict]] = {
            point: [one.verdict for one in part] for point, part in parts.items()
        }
        labels[None] = [one.verdict for one in members]
        found.append((candidates, labels))
    return found


def _part(searched: PathTable, name: str, point: Point) -> list[JudgedPath]:
    """The scored paths of a search at a point."""
    strategy, budget = point
    most = 1 if strategy is Strategy.BEAM else budget
    if name not in searched.groups:
        raise BadInputError(f"problem {name!r} was drawn but not searched; run the command again")
    return [one for one in searched.groups[name].scored() if one.path.index < most]


def _cost(searched: PathTable, name: str, point: Point) -> Cost:
    strategy, budget = point
    return searched.costs[name, 0 if strategy is Strategy.BEAM else budget - 1]


def _candidate(member: JudgedPath, source: PathTable) -> CandidatePath:
    path = member.path
    measure = source.measures[path.problem_id, path.index]
    return CandidatePath(
        answer=measure.answer,
        tokens=path.completion_tokens,
        logprob=path.logprob,
        self_certainty=measure.self_certainty,
        reward=measure.reward,
    )


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
    problem: Candidates, points: Sequence[Point], params: StrategyParams, *, seed: int
) -> dict[Point, Choice]:
    """The label-free choice of each strategy except the oracle, at each point."""
    rules = make_selectors(params)
    made: dict[Point, Choice] = {}
    for strategy, budget in points:
        if strategy in SEARCHES:
            made[strategy, budget] = _VOTE.choose(problem.found[strategy, budget])
        elif strategy is not Strategy.ORACLE:
            made[strategy, budget] = mean_choice(
                rules[strategy],
                problem.drawn,
                budget,
                max_subsets=params.max_subsets,
                seed=child_seed(seed, problem.id, strategy.value),
            )
    return made


def score_at(made: Mapping[Point, Choice], labels: Labels, point: Point, *, strict: bool) -> float:
    """Expected score of one problem at one point."""
    strategy, budget = point
    verdicts = labels.get(point, labels[None])
    right = [bool(one.strict if strict else one.lenient) for one in verdicts]
    if strategy is Strategy.ORACLE:
        return pass_at_k(len(right), sum(right), budget)
    expected = sum(chance for chance, ok in zip(made[point], right, strict=True) if ok)
    return min(expected, 1.0)


def expected_cost(problem: Candidates, point: Point) -> StudyCost:
    """Expected cost of one problem; tokens that are read again to score a path count as prompt."""
    strategy, budget = point
    if strategy in SEARCHES:
        cost = problem.costs[point]
        return StudyCost(
            drawn=cost.completion_tokens,
            prompt=cost.prompt_tokens + cost.scoring_tokens,
            critical=cost.critical_tokens,
            longest=cost.longest_tokens,
        )
    tokens = [one.tokens for one in problem.drawn]
    mean = sum(tokens) / len(tokens)
    prompt = problem.prompt_tokens
    longest = mean_longest(tokens, budget)
    return StudyCost(
        drawn=budget * mean,
        prompt=prompt + (budget * (prompt + mean) if strategy in SCORING else 0.0),
        critical=longest,
        longest=prompt + longest,
    )


def curve_series(
    problems: Sequence[tuple[Candidates, Labels]],
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
    made = [choose_paths(one, points, params, seed=seed) for one, _ in problems]
    rows = [(one, choice, own) for (one, own), choice in zip(problems, made, strict=True)]

    def series(point: Point, *, strict: bool) -> Series:
        strategy, budget = point
        return Series(
            arm=arm_of(point),
            measure="accuracy",
            subset=ALL if strict else LENIENT,
            values={
                one.id: score_at(choice, own, point, strict=strict) for one, choice, own in rows
            },
            costs={one.id: expected_cost(one, point) for one, _ in problems},
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
