"""Curves: hand-worked points, and labels that never reach a choice."""

import dataclasses
import random
import typing
from dataclasses import replace

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import RewardParams, Strategy, StrategyParams
from pipeline_lib.records import Group, JudgedPath
from pipeline_lib.sampling.compute_cost import Cost as PathCost
from pipeline_lib.study import search, selection
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.curves.estimates import (
    against_majority,
    arm_of,
    choose_paths,
    curve_points,
    curve_series,
    expected_cost,
    join_tables,
    read_candidates,
)
from pipeline_lib.study.curves.path_measures import PathMeasure
from pipeline_lib.study.study import arm_names
from tests.unit.study.judged_groups import judged_group


def with_logprobs(group, seed):
    """The paths of a group with made-up log-probabilities."""
    generator = random.Random(seed)
    members = [
        JudgedPath(path=replace(one.path, logprob=-generator.random() * 10), verdict=one.verdict)
        for one in group.members
    ]
    return Group(problem=group.problem, members=members)


def synthetic_table(letters_by_problem, *, costs=False, num_answers=3):
    """Paths with verdicts by letter; answers and certainties depend on the place alone."""
    groups = [
        with_logprobs(judged_group(name, letters), name)
        for name, letters in letters_by_problem.items()
    ]
    places = [(g.problem.id, one.path.index) for g in groups for one in g.members]
    measures = [
        PathMeasure(
            problem_id=name,
            index=index,
            answer=(index * 7 + len(name)) % num_answers,
            self_certainty=float((index * 5) % 4),
            reward=float((index * 3) % 4) - 2,
        ).row()
        for name, index in places
    ]
    spent = [
        {
            "problem_id": name,
            "index": index,
            **dataclasses.asdict(PathCost(completion_tokens=10 * index + 10, critical_tokens=10)),
        }
        for name, index in places
    ]
    return join_tables(groups, measures, spent if costs else ())


def synthetic_input(params, drawn, searched):
    points = curve_points(params)
    found = {
        point: synthetic_table(searched, costs=True)
        for point in points
        if point[0] in {Strategy.BEAM, Strategy.TREE}
    }
    return read_candidates(synthetic_table(drawn), found, num_paths=max(params.budgets))


PARAMS = StrategyParams(
    strategies=tuple(Strategy),
    budgets=(1, 2, 4),
    reward=RewardParams(url="http://127.0.0.1:8001/v1"),
)
LETTERS = {"p": "cwwc", "q": "wwww", "r": "cccw"}


def curves_of(params, source):
    points = curve_points(params)
    return curve_series(source, points, params, seed=3)


def value(curves, strategy, budget, *, lenient=False):
    values = curves[strategy, budget][lenient].values
    return sum(values.values()) / len(values)


def test_single_and_oracle_by_hand():
    """Right are 2, 0 and 3 of 4: one path gives (2/4 + 0 + 3/4) / 3; the best of two is right with
    chance 5/6, 0 and 1; the best of four with 1, 0 and 1."""
    curves = curves_of(PARAMS, synthetic_input(PARAMS, LETTERS, LETTERS))
    assert value(curves, Strategy.SINGLE, 1) == pytest.approx((0.5 + 0.75) / 3)
    assert value(curves, Strategy.ORACLE, 2) == pytest.approx((5 / 6 + 1) / 3)
    assert value(curves, Strategy.ORACLE, 4) == pytest.approx(2 / 3)
    bounds = {strategy for (strategy, _), pair in curves.items() if pair[0].arm.upper_bound}
    assert bounds == {Strategy.ORACLE}


def test_tokens_by_hand():
    """Paths of 10, 11, 12 and 13 tokens after a prompt of 5. Two of them: 2 * 11.5 = 23 tokens; the
    longer is 13, 12 or 11 in 3, 2 and 1 of 6 pairs: 12 1/3. A second look reads 2 * (5 + 11.5)."""
    source = synthetic_input(PARAMS, LETTERS, LETTERS)
    longest = (3 * 13 + 2 * 12 + 11) / 6
    vote = expected_cost(source[0][0], (Strategy.MAJORITY, 2))
    assert vote == Cost(drawn=23, prompt=5, critical=longest, longest=5 + longest)
    again = expected_cost(source[0][0], (Strategy.BORDA_VOTE, 2))
    assert again == Cost(drawn=23, prompt=5 + 33, critical=longest, longest=5 + longest)


def test_a_search_is_scored_by_its_own_paths_and_costs():
    """The best branch of the beam is path 0; the tree at budget 2 has spent what path 1 says."""
    searched = {"p": "wccc", "q": "cwww", "r": "cwww"}
    source = synthetic_input(PARAMS, LETTERS, searched)
    curves = curves_of(PARAMS, source)
    assert value(curves, Strategy.BEAM, 4) == pytest.approx(2 / 3)
    assert value(curves, Strategy.TREE, 1) == pytest.approx(2 / 3)
    drawn = [curves[p][0].costs["p"].drawn for p in ((Strategy.BEAM, 4), (Strategy.TREE, 2))]
    assert drawn == [10, 20]


def test_lenient_stands_beside_strict():
    """A right answer in another format counts for the lenient score alone."""
    letters = {"p": "fffw", "q": "cwww"}
    curves = curves_of(PARAMS, synthetic_input(PARAMS, letters, letters))
    found = [value(curves, Strategy.SINGLE, 1, lenient=lenient) for lenient in (False, True)]
    assert found == pytest.approx([1 / 8, 1 / 2])


def test_problems_that_our_side_failed_are_left_out():
    """A verifier failure among the paths, or no scored path of a search, is never a wrong answer."""
    drawn = {"p": "cwww", "q": "cxww", "r": "cwww"}
    searched = {"p": "cwww", "q": "cwww", "r": "eeee"}
    source = synthetic_input(PARAMS, drawn, searched)
    assert [one.id for one, _ in source] == ["p"]


def test_poisoned_labels_change_no_choice():
    """Whatever the verdicts say, every strategy hands in the same paths; only the scores change."""
    right = {"p": "ccww", "q": "wcwc", "r": "wwww"}
    flipped = {
        name: letters.translate(str.maketrans("cw", "wc")) for name, letters in right.items()
    }
    points = curve_points(PARAMS)

    def chosen(letters):
        source = synthetic_input(PARAMS, letters, letters)
        return source, [choose_paths(one, points, PARAMS, seed=3) for one, _ in source]

    honest, honest_choices = chosen(right)
    poisoned, poisoned_choices = chosen(flipped)
    assert [one for one, _ in honest] == [one for one, _ in poisoned]
    assert honest_choices == poisoned_choices
    assert {strategy for strategy, _ in honest_choices[0]} == set(Strategy) - {Strategy.ORACLE}
    before, after = curves_of(PARAMS, honest), curves_of(PARAMS, poisoned)
    for strategy, budget in points:
        one, other = (curves[strategy, budget][0] for curves in (before, after))
        assert one.costs == other.costs
        if strategy is not Strategy.ORACLE:
            # A path that was right is wrong now.
            rights = [value(curves, strategy, budget) for curves in (before, after)]
            assert sum(rights) == pytest.approx(1)


def types_below(found: type) -> set[str]:
    """Names of all types that the fields of a dataclass mention, down to the last."""
    names = set()
    for hint in typing.get_type_hints(found).values():
        for part in (hint, *typing.get_args(hint)):
            names.add(getattr(part, "__name__", str(part)))
            if dataclasses.is_dataclass(part):
                names |= types_below(part)
    return names


@pytest.mark.parametrize("value", [selection.CandidatePath, search.SearchProblem, search.FoundPath])
def test_what_strategies_see_has_no_room_for_a_label(value):
    """No gold, verdict, group, label or flag is a field of it, at any depth."""
    fields = types_below(value) | {field.name for field in dataclasses.fields(value)}
    assert not fields & {
        "Problem", "Group", "Verdict", "Label", "JudgedPath", "Status", "bool",
        "gold", "solution", "strict", "lenient", "correct", "verdict",
    }  # fmt: skip


@pytest.mark.parametrize("module", [selection, search])
def test_modules_of_strategies_know_no_labels(module):
    """Nothing by which a label could come in is even imported."""
    assert not vars(module).keys() & {"Problem", "Group", "Verdict", "JudgedPath", "Label", "Gold"}


def test_differences_are_to_the_vote_of_the_same_budget():
    """The likelihood of four against the vote of four; one path, and the vote itself, have none."""
    curves = curves_of(PARAMS, synthetic_input(PARAMS, LETTERS, LETTERS))
    pairs = [(one.candidate.arm, one.reference.arm) for one in against_majority(curves)]
    vote = arm_of((Strategy.MAJORITY, 4))
    assert (arm_of((Strategy.LIKELIHOOD, 4)), vote) in pairs
    assert all(one.settings["paths"] == other.settings["paths"] for one, other in pairs)
    assert not [one for one, _ in pairs if one.base == "majority" or one.settings["paths"] == 1]


def test_every_strategy_has_an_arm_of_its_own():
    """No two points have one name in a file."""
    points = curve_points(PARAMS)
    assert len(set(arm_names([arm_of(point) for point in points]).values())) == len(points)


def test_points_are_those_that_differ():
    """One path has one budget, a beam only multiples of its expansion."""
    params = StrategyParams(
        strategies=(Strategy.SINGLE, Strategy.BEAM, Strategy.MAJORITY), budgets=(8, 1, 2)
    )
    assert curve_points(params) == [
        (Strategy.SINGLE, 1),
        (Strategy.BEAM, 8),
        (Strategy.MAJORITY, 1),
        (Strategy.MAJORITY, 2),
        (Strategy.MAJORITY, 8),
    ]


def test_no_problem_is_bad_input():
    """There is nothing to take a mean over."""
    with pytest.raises(BadInputError, match="no problem"):
        curve_series([], curve_points(PARAMS), PARAMS, seed=3)
