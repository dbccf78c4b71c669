"""The study, by hand on three problems; from drawn rounds to judged problems."""

from dataclasses import replace

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.compute_cost import request_cost
from pipeline_lib.study.attempts import Attempt, Cost
from pipeline_lib.study.names import definitions
from pipeline_lib.study.selection import CandidatePath
from pipeline_lib.systems.pacore.drive import solve_in_lockstep
from pipeline_lib.systems.pacore.rounds import RoundPlan
from pipeline_lib.systems.pacore.study import (
    EvaluatedModel,
    attempt_arms,
    further_tables,
    pacore_study,
)
from pipeline_lib.systems.pacore.trials import (
    PLAIN,
    JudgedProblem,
    Strategy,
    judged_problem,
    make_trial,
    read_trial,
)
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier
from tests.unit.systems.pacore.scripted_chat import question, scripted, setting

SETTINGS = {
    "params": EvaluateParams(resamples=200),
    "seed": 7,
    "provenance": {"version": "1", "commit": None, "params_digest": "abc"},
}
LOW = "rounds 4,1"
RIGHT, WRONG = 0, 1


def attempt(name, right, cost, *, arm=PLAIN, sample=0, extra=None):
    return Attempt(
        problem_id=name, arm=arm, sample=sample, right=right, cost=cost, extra=extra or {}
    )


def problem(name, right, synthesis, references, *, drawn=40, prompt=300, logprobs=True, requests=1):
    """Plain paths of 10 tokens with answers 0 (right) and 1; a synthesis of 5 calls, one after the first round."""
    candidates = tuple(
        CandidatePath(
            answer=RIGHT if ok else WRONG,
            tokens=10,
            logprob=(-1.0 if ok else -2.0) if logprobs else None,
            self_certainty=None,
        )
        for ok in right
    )
    extra = {
        "later_calls": 1,
        "shown": len(references),
        "dropped": 4 - len(references),
        "references": len(references),
        "right_references": sum(references),
    }
    cost = Cost(drawn=drawn, prompt=prompt, critical=20, longest=10)
    return JudgedProblem(
        id=name,
        candidates=candidates,
        plain=tuple(attempt(name, ok, Cost(), sample=place) for place, ok in enumerate(right)),
        prompt_tokens=100 * requests,
        num_requests=requests,
        outcomes={LOW: attempt(name, synthesis, cost, arm=LOW, extra=extra)},
    )


PROBLEMS = [
    problem("a", [True] * 8, synthesis=True, references=(True, True)),
    problem("b", [True] + [False] * 7, synthesis=True, references=(False, False)),
    problem("c", [False] * 8, synthesis=False, references=(True, False)),
]
ALWAYS = [problem(one.id, [True] * 8, True, (True,)) for one in PROBLEMS]
NEVER = [problem(one.id, [False] * 8, False, (False,)) for one in PROBLEMS]
AXES = ("drawn", "total", "critical")


def studied(problems, *, about="m", **others):
    """The study of model m and others."""
    models = [
        EvaluatedModel(name=name, problems=own) for name, own in ({"m": problems} | others).items()
    ]
    return pacore_study(models, about=about, **SETTINGS)[0]


def accuracy(study, arm):
    return study.point(arm, "accuracy").value


def best_votes(study):
    """Of one model: rule, number of paths, tokens and cap by axis."""
    found = study.compute["best_votes"]
    rows = [found[f"best vote, {axis}"] for axis in AXES]
    return [(one["vote"], one["paths"], one["tokens"], one["capped"]) for one in rows]


def test_accuracy_of_votes():
    """One path (1 + 1/8 + 0) / 3; majority of 8 is 1, 0, 0; likelihood finds b's right path if it is drawn."""
    study = studied(PROBLEMS)
    assert accuracy(study, "one path") == pytest.approx(9 / 24)
    assert accuracy(study, "majority paths=8") == pytest.approx(1 / 3)
    assert accuracy(study, "weighted vote paths=8") == pytest.approx(1 / 3)
    assert accuracy(study, "likelihood paths=8") == pytest.approx(2 / 3)
    assert accuracy(study, "likelihood paths=4") == pytest.approx(1.5 / 3)
    assert accuracy(study, "oracle paths=4") == pytest.approx(1.5 / 3)
    bounds = [one.settings["paths"] for one in study.arms if one.upper_bound]
    assert bounds == [1, 2, 4, 8]


def test_costs():
    """Votes read their prompt once; a path has 10 tokens, so any number of them has a critical path of 10."""
    study = studied(PROBLEMS)
    vote, synthesis = (study.point(arm, "accuracy").cost for arm in ("majority paths=4", LOW))
    assert vote == Cost(drawn=40, prompt=100, critical=10, longest=10)
    assert synthesis == Cost(drawn=40, prompt=300, critical=20, longest=10)


@pytest.mark.parametrize(
    ("requests", "totals"),
    [(1, [110, 120, 140, 180]), (4, [110, 120, 240, 480]), (8, [110, 220, 440, 880])],
)
def test_a_vote_reads_the_prompts_of_its_own_requests(requests, totals):
    """8 paths of 10 tokens in 1, 4 or 8 requests with a prompt of 100: 2 paths need 1, 1 and 2 of them."""
    study = studied([problem("a", [True] * 8, synthesis=True, references=(), requests=requests)])
    costs = [study.point(f"majority paths={count}", "accuracy").cost for count in (1, 2, 4, 8)]
    assert [cost.total for cost in costs] == totals
    assert [cost.drawn for cost in costs] == [10, 20, 40, 80]


def test_votes_of_another_model():
    """Each strategy is also compared with the votes of the others; the most accurate ones come first.

    Without them the study is about the strategy of m minus the votes that are always right.
    """
    study = studied(PROBLEMS, better=ALWAYS)
    settings = {one.name: one.settings for one in study.arms}
    compared = [
        (settings[one.arm]["model"], settings[one.reference]["model"]) for one in study.differences
    ]
    both = [("m", "better"), ("m", "m"), ("better", "better"), ("better", "m")]
    assert compared == [pair for pair in both for _ in AXES]
    assert study.headline.reference == "best vote, drawn model=better of=m"
    assert study.headline.value == pytest.approx(-1 / 3)
    assert accuracy(study, f"{LOW} model=m") == pytest.approx(2 / 3)


def test_a_study_is_about_the_model_that_is_named():
    """Whose best reference is its own vote, the first of equal ones."""
    study = studied(PROBLEMS, about="better", better=ALWAYS)
    assert study.headline.arm == f"{LOW} model=better"
    assert study.headline.reference == "best vote, drawn model=better of=better"


def test_each_axis_has_its_own_opponent():
    """40 drawn tokens are 4 paths; 340 with prompts and a critical path of 20 allow all 8."""
    study = studied(PROBLEMS)
    assert best_votes(study) == [
        *(("likelihood", 4, 40, False), ("likelihood", 8, 180, True)),
        ("likelihood", 8, 10, True),
    ]
    drawn, total, _ = study.differences
    assert (drawn.of_arm, drawn.of_reference) == (pytest.approx(2 / 3), pytest.approx(1.5 / 3))
    assert (drawn.arm, drawn.reference) == (LOW, "best vote, drawn")
    assert total.value == pytest.approx(0)
    assert "0 above the best vote that costs no more, 0 below it; 2 capped" in study.claims[-1]


def test_losses_are_counted_against_the_strongest_voters():
    """With .5 on 40 problems m is above its own votes of 0 and below those of policy, 1."""
    half = [problem(f"p{n}", [False] * 8, n < 20, (False,)) for n in range(40)]
    policy = [problem(one.id, [True] * 8, True, (True,)) for one in half]
    assert "m: 3 comparisons" in (first := studied(half).claims[-1])
    assert ", 3 above" in first
    assert ", 0 above" in (last := studied(half, policy=policy).claims[-1])
    assert ", 3 below it" in last


def test_the_opponent_never_costs_more():
    """A synthesis of 9 drawn tokens is compared with one path, not with none."""
    cheap = [problem("a", [True, False] * 4, synthesis=True, references=(), drawn=9, prompt=1)]
    assert [paths for _, paths, _, _ in best_votes(studied(cheap))] == [1, 1, 8]


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
    study = studied([replace(plain, candidates=candidates)])
    assert accuracy(study, "majority paths=8") == accuracy(study, "likelihood paths=8") == 0
    assert [paths for _, paths, _, _ in best_votes(study)] == [2] * 3
    assert [one.of_reference for one in study.differences] == pytest.approx([15 / 28] * 3)


def test_a_vote_of_the_whole_pool_may_be_capped():
    """8 paths cost 80 drawn tokens, 180 with their prompt, and have a critical path of 10.

    A strategy of 40, 340 and 20 tokens is compared with 40, and with less where 180 < 340 and 10 < 20. At exactly
    80, 180 and 20 only the critical path is capped.
    """

    def marks(**tokens):
        one = [problem("a", [True, False] * 4, synthesis=True, references=(), **tokens)]
        return [found[2:] for found in best_votes(studied(one))]

    assert marks(drawn=40, prompt=300) == [(40, False), (180, True), (10, True)]
    assert marks(drawn=80, prompt=100) == [(80, False), (180, False), (10, True)]


def test_what_became_of_references():
    """b: all wrong and right, its last plain path is wrong; of a and c with a right reference c is lost."""
    study = studied(PROBLEMS)
    points = [study.point(LOW, measure) for measure in ("emergent", "one more path", "lost")]
    assert [(one.value, one.n) for one in points] == [(1.0, 1), (0.0, 1), (0.5, 2)]


def test_references_shown_and_dropped():
    """2, 2 and 1 of 4 are shown in one call per problem: 5/3 shown, 7/3 dropped."""
    uneven = [*PROBLEMS[:2], problem("d", [False] * 8, synthesis=False, references=(True,))]
    study = studied(uneven)
    assert study.compute["references"][LOW] == pytest.approx({"shown": 5 / 3, "dropped": 7 / 3})
    votes, references = further_tables(study)
    assert votes.rows[1] == ("best vote, total", "likelihood of 8", "180, capped")
    assert references.rows == ((LOW, "1.7", "2.3"),)


def test_without_log_probabilities():
    """The majority alone is left, and the oracle."""
    silent = [problem("a", [True] * 8, True, (True,), logprobs=False)]
    names = {one.arm.partition(" paths")[0] for one in studied(silent).points}
    assert names == {"one path", "majority", "oracle", LOW}


def test_nothing_solved_claims_nothing():
    assert studied(NEVER).claims[0] == "Nothing was solved, so nothing is claimed."


def test_names():
    """Every arm has a definition, and attempts have the names of their arms."""
    one = EvaluatedModel(name="m", problems=PROBLEMS)
    study, series = pacore_study([one, replace(one, name="n")], about="m", **SETTINGS)
    arms = attempt_arms(series, "n")
    assert arms == {PLAIN: "one path model=n", LOW: f"{LOW} model=n"}
    assert len(definitions([one.name for one in study.arms])) == 9


def test_no_problem_is_bad_input():
    """All were left out."""
    with pytest.raises(BadInputError, match="no problem has all paths"):
        studied([])


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
