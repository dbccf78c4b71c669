"""From drawn rounds to judged problems: requests of the plain paths, references of the strategies."""

from dataclasses import replace

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.compute_cost import request_cost
from pipeline_lib.systems.pacore.drive import solve_in_lockstep
from pipeline_lib.systems.pacore.evaluation.trials import (
    PLAIN,
    Strategy,
    judged_problem,
    make_trial,
    read_trial,
)
from pipeline_lib.systems.pacore.rounds import RoundPlan
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.pacore.scripted_chat import question, scripted, setting

PROBLEM = Problem(id="q", question="6 times 7?", gold=MathGold(answer="42"), source="test")
PLAN = [RoundPlan(width=8)]
RIGHT = Verdict(status=Status.CORRECT, strict=True, lenient=True, extracted="42")
FAILED = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)


def trial_of(solution, name=PLAIN):
    return read_trial(make_trial(Strategy(name=name, plan=PLAN), solution).row())


@pytest.fixture(scope="module")
def judged_from():
    """Judges trials whose texts are all right, by one verifier."""
    with open_verifier(VerifyParams()) as verifier:

        def judged(*trials, more=None):
            paths = [path for one in trials for paths in one.rounds for path in paths]
            verdicts = {("q", path.text): RIGHT for path in paths}
            named = {one.strategy: one for one in trials}
            return judged_problem(PROBLEM, named, verdicts | (more or {}), verifier)

        yield judged


def plain_solution(opens):
    """Eight plain paths; ``opens`` has the places of those that begin a request."""
    [solution] = solve_in_lockstep(scripted(), [question()], setting(plan=PLAN))
    [drawn] = solution.rounds
    completions = [
        replace(one, opens_request=place in opens) for place, one in enumerate(drawn.completions)
    ]
    drawn = replace(drawn, completions=completions, cost=request_cost(completions))
    return replace(solution, rounds=[drawn])


@pytest.mark.parametrize(
    ("opens", "requests"), [((), 1), ((0,), 1), ((0, 4), 2), (tuple(range(8)), 8)]
)
def test_requests_of_the_plain_paths(judged_from, opens, requests):
    """An engine in process opens none, vLLM one, a server without consecutive seeds one a path; one is the fewest.

    The prompt tokens of the pool are counted once per request.
    """
    solution = plain_solution(opens)
    judged = judged_from(trial_of(solution))
    assert judged.num_requests == requests
    one_prompt = solution.rounds[0].completions[0].prompt_tokens
    assert judged.prompt_tokens == requests * one_prompt
    first = judged.plain[0]
    assert (first.right, first.answer, first.cost.prompt) == (True, "42", one_prompt)
    assert [one.sample for one in judged.plain] == [*range(8)]


def test_references_that_did_not_fit_are_counted(judged_from):
    """Rounds of 8, 2 and 1 with room for 3 references: 3, 3 and 2 are shown, 5, 5 and 0 dropped, in 3 calls."""
    few = setting(
        PacoreParams(widths=(8, 2)), fits=lambda prompt: "Candidate solution 4" not in prompt
    )
    [solution] = solve_in_lockstep(scripted(), [question()], few)
    judged = judged_from(trial_of(plain_solution(())), trial_of(solution, "8,2"))
    outcome = judged.outcomes["8,2"]
    assert (outcome.extra["shown"], outcome.extra["dropped"]) == (3 + 3 + 2, 5 + 5)
    assert outcome.extra["later_calls"] == 3
    assert (outcome.extra["references"], outcome.extra["right_references"]) == (2, 2)
    assert outcome.cost.drawn == solution.cost.completion_tokens


def test_a_reference_without_a_verdict_leaves_the_problem_out(judged_from):
    """Though the last call has one."""
    [solution] = solve_in_lockstep(scripted(), [question()], setting(PacoreParams(widths=(8, 2))))
    plain, trial = trial_of(plain_solution(())), trial_of(solution, "8,2")
    assert judged_from(plain, trial) is not None
    unknown = {("q", trial.rounds[-2][0].text): FAILED}
    assert judged_from(plain, trial, more=unknown) is None
