"""Estimates of an evaluation, by hand on three problems."""

from dataclasses import replace

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.study.selection.selectors import CandidatePath
from pipeline_lib.systems.pacore.evaluation.estimates import EstimateContext, estimate
from pipeline_lib.systems.pacore.evaluation.outcomes import JudgedProblem, SynthesisOutcome
from pipeline_lib.systems.pacore.evaluation.result import Axis

CONTEXT = EstimateContext(num_left_out=0, params=EvaluateParams(resamples=200), seed=7)
RIGHT, WRONG = 0, 1


def problem(name, right, synthesis, references, *, drawn=40, prompt=300, logprobs=True, requests=1):
    """Plain paths of 10 tokens with answers 0 (right) and 1; a synthesis of 5 calls."""
    candidates = tuple(
        CandidatePath(
            answer=RIGHT if ok else WRONG,
            tokens=10,
            logprob=(-1.0 if ok else -2.0) if logprobs else None,
            self_certainty=None,
        )
        for ok in right
    )
    cost = Cost(calls=5, prompt_tokens=prompt, completion_tokens=drawn, critical_tokens=20)
    outcome = SynthesisOutcome(
        right=synthesis,
        references_right=references,
        references_shown=len(references),
        references_dropped=4 - len(references),
        later_calls=1,
        cost=cost,
    )
    return JudgedProblem(
        id=name,
        candidates=candidates,
        right=tuple(right),
        prompt_tokens=100 * requests,
        num_requests=requests,
        outcomes={"low": outcome},
    )


PROBLEMS = [
    problem("a", [True] * 8, synthesis=True, references=(True, True)),
    problem("b", [True] + [False] * 7, synthesis=True, references=(False, False)),
    problem("c", [False] * 8, synthesis=False, references=(True, False)),
]


def estimated(problems):
    [result] = estimate({"m": problems}, CONTEXT)
    return result


def points(result):
    return {(point.name, point.paths): point for point in result.points}


def test_accuracy_of_votes():
    """Single (1 + 1/8 + 0) / 3; majority of 8 is 1, 0, 0; likelihood finds b's right path if it is drawn."""
    found = points(estimated(PROBLEMS))
    assert found["single", 1].accuracy.value == pytest.approx(9 / 24)
    assert found["majority", 8].accuracy.value == pytest.approx(1 / 3)
    assert found["likelihood", 8].accuracy.value == pytest.approx(2 / 3)
    assert found["likelihood", 4].accuracy.value == pytest.approx(1.5 / 3)
    assert found["oracle", 4].accuracy.value == pytest.approx(1.5 / 3)
    assert [point.paths for point in found.values() if point.upper_bound] == [1, 2, 4, 8]


def test_costs():
    """Votes read their prompt once; a path has 10 tokens, so any number of them has a critical path of 10."""
    found = points(estimated(PROBLEMS))
    assert found["majority", 4].costs == {Axis.DRAWN: 40, Axis.TOTAL: 140, Axis.CRITICAL: 10}
    assert found["low", 5].costs == {Axis.DRAWN: 40, Axis.TOTAL: 340, Axis.CRITICAL: 20}


@pytest.mark.parametrize(
    ("requests", "totals"),
    [(1, [110, 120, 140, 180]), (4, [110, 120, 240, 480]), (8, [110, 220, 440, 880])],
)
def test_a_vote_reads_the_prompts_of_its_own_requests(requests, totals):
    """8 paths of 10 tokens in 1, 4 or 8 requests with a prompt of 100: 2 paths need 1, 1 and 2 of them."""
    found = points(
        estimated([problem("a", [True] * 8, synthesis=True, references=(), requests=requests)])
    )
    costs = [found["majority", count].costs for count in (1, 2, 4, 8)]
    assert [cost[Axis.TOTAL] for cost in costs] == totals
    assert [cost[Axis.DRAWN] for cost in costs] == [10, 20, 40, 80]


def test_votes_of_another_model():
    """Each strategy is also compared with the votes of the others: here of a model that is always right."""
    better = [problem(one.id, [True] * 8, synthesis=True, references=(True,)) for one in PROBLEMS]
    [result, other] = estimate({"m": PROBLEMS, "better": better}, CONTEXT)
    assert [one.voters for one in other.against] == ["better"] * 3 + ["m"] * 3
    assert [one.voters for one in result.against] == ["m"] * 3 + ["better"] * 3
    differences = [one.difference.interval.value for one in result.against[3:]]
    assert differences == pytest.approx([-1 / 3] * 3)


def test_each_axis_has_its_own_opponent():
    """40 drawn tokens are 4 paths; 340 with prompts and a critical path of 20 allow all 8."""
    result = estimated(PROBLEMS)
    found = {one.axis: one for one in result.against}
    assert [found[axis].paths for axis in Axis] == [4, 8, 8]
    assert {one.vote for one in result.against} == {"likelihood"}
    difference = found[Axis.DRAWN].difference
    assert (difference.trained, difference.base) == (pytest.approx(2 / 3), pytest.approx(1.5 / 3))
    assert found[Axis.TOTAL].difference.interval.value == pytest.approx(0)


def test_the_opponent_never_costs_more():
    """A synthesis of 9 drawn tokens is compared with one path, not with none."""
    cheap = [problem("a", [True, False] * 4, synthesis=True, references=(), drawn=9, prompt=1)]
    result = estimated(cheap)
    assert [one.paths for one in result.against] == [1, 1, 8]


def test_a_better_vote_of_fewer_paths_is_the_opponent():
    """All 8 paths fit: 3 right ones, 4 less likely wrong ones, and a wrong one that is the most likely.

    The majority of 8 is wrong and so is the most likely of 8; any one path is right in 3/8. Of the C(8, 2) = 28 pairs
    21 are without the most likely path, and 6 of these have two wrong ones: the most likely of 2 is right in 15/28.
    """
    plain = problem("a", [True] * 3 + [False] * 5, True, (), drawn=80, prompt=1000)
    logprobs = [-2.0] * 3 + [-3.0] * 4 + [-1.0]
    candidates = tuple(
        replace(one, logprob=logprob)
        for one, logprob in zip(plain.candidates, logprobs, strict=True)
    )
    result = estimated([replace(plain, candidates=candidates)])
    found = points(result)
    assert found["majority", 8].accuracy.value == found["likelihood", 8].accuracy.value == 0
    assert [one.paths for one in result.against] == [2] * 3
    assert [one.difference.base for one in result.against] == pytest.approx([15 / 28] * 3)


def test_a_vote_of_the_whole_pool_may_be_capped():
    """8 paths cost 80 drawn tokens, 180 with their prompt, and have a critical path of 10.

    A strategy of 40, 340 and 20 tokens is compared with 40, and with less where 180 < 340 and 10 < 20. At exactly
    80, 180 and 20 only the critical path is capped.
    """

    def marks(**tokens):
        one = [problem("a", [True, False] * 4, synthesis=True, references=(), **tokens)]
        return [(found.vote_cost, found.capped) for found in estimated(one).against]

    assert marks(drawn=40, prompt=300) == [(40, False), (180, True), (10, True)]
    assert marks(drawn=80, prompt=100) == [(80, False), (180, False), (10, True)]


def test_what_became_of_references():
    """b: all wrong and right, its last plain path is wrong; of a and c with a right reference c is lost."""
    [call] = estimated(PROBLEMS).last_calls
    assert (call.all_wrong, call.emergent, call.further_path) == (1, 1.0, 0.0)
    assert (call.some_right, call.lost) == (2, 0.5)


def test_references_shown_and_dropped():
    """2, 2 and 1 of 4 are shown in one call per problem: 5/3 shown, 7/3 dropped."""
    uneven = [*PROBLEMS[:2], problem("d", [False] * 8, synthesis=False, references=(True,))]
    [found] = estimated(uneven).references
    assert (found.shown, found.dropped) == (pytest.approx(5 / 3), pytest.approx(7 / 3))


def test_without_log_probabilities():
    """The majority alone is left, and the oracle."""
    silent = [problem("a", [True] * 8, True, (True,), logprobs=False)]
    names = {point.name for point in estimated(silent).points if point.is_vote}
    assert names == {"single", "majority", "oracle"}


def test_no_problem_is_bad_input():
    """All were left out."""
    with pytest.raises(BadInputError, match="no problem has all paths"):
        estimated([])
