"""From drawn rounds to judged problems: requests of the plain paths."""

from dataclasses import replace

import pytest

from pipeline_lib.collaborative.drive import solve_in_lockstep
from pipeline_lib.collaborative.evaluation.judging import judged_problem
from pipeline_lib.collaborative.evaluation.trials import PLAIN, Strategy, make_trial, read_trial
from pipeline_lib.collaborative.plan import RoundPlan
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.compute_cost import request_cost
from pipeline_lib.verification.dispatch import open_verifier
from tests.unit.collaborative.scripted_chat import question, scripted, setting

PROBLEM = Problem(id="q", question="6 times 7?", gold=MathGold(answer="42"), source="test")
PLAN = [RoundPlan(width=8)]


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
def test_requests_of_the_plain_paths(opens, requests):
    """An engine in process opens none, vLLM one, a server without consecutive seeds one a path; one is the fewest.

    The prompt tokens of the pool are those of so many prompts.
    """
    solution = plain_solution(opens)
    trial = read_trial(make_trial(Strategy(name=PLAIN, plan=PLAN), solution).row())
    scores = {("q", path.text): True for path in trial.rounds[0]}
    with open_verifier(VerifyParams()) as verifier:
        judged = judged_problem(PROBLEM, {PLAIN: trial}, scores, verifier)
    assert judged.num_requests == requests
    one_prompt = solution.rounds[0].completions[0].prompt_tokens
    assert judged.prompt_tokens == requests * one_prompt
