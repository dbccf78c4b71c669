"""Beam search on a scripted model whose best paths are known."""

import pytest

from pipeline_lib.engines.scored_text import TextScore
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import BeamParams
from pipeline_lib.records import FinishReason
from pipeline_lib.study.search.beam import beam_search
from tests.unit.study.search.scripted_search import problem, setting

LIKELIHOOD = BeamParams(expansion=2, value="likelihood")


def letters(prompt, seed):
    """A first step a, b, c or d, then x or y, then the end."""
    return f"{'abcd'[seed % 4]}\nrest" if prompt == "Q " else "xy"[seed % 2]


def logprob(_prompt, text):
    return {"a": -1.0, "b": -2.0, "c": -3.0, "d": -4.0, "x": -0.5, "y": -5.0}[text]


def test_keeps_the_best_branches():
    """Of a, b, c, d two are kept; of their continuations ax (-1.5) and bx (-2.5)."""
    [found] = beam_search([problem()], setting(letters, logprob=logprob, beam=LIKELIHOOD), budget=4)
    assert [(path.text, path.logprob) for path in found.paths] == [("a\nx", -1.5), ("b\nx", -2.5)]
    assert {path.finish_reason for path in found.paths} == {FinishReason.STOP}


def test_every_token_is_counted_and_rounds_wait_for_each_other():
    """Round 1 draws 4 tokens, round 2 twice 2, discarded ones as well; the chain is 1 + 1 long.
    Prompts: 1 token, then twice 2."""
    [found] = beam_search([problem()], setting(letters, logprob=logprob, beam=LIKELIHOOD), budget=4)
    cost = found.cost
    assert (cost.completion_tokens, cost.critical_tokens, cost.calls) == (8, 2, 8)
    assert (cost.prompt_tokens, cost.longest_tokens) == (1 + 2 + 2, 1)


def test_equal_branches_take_one_place():
    """Equal continuations leave one branch, which is continued like a single one."""
    same = setting(
        lambda prompt, _: "a\nrest" if prompt == "Q " else "x", logprob=logprob, beam=LIKELIHOOD
    )
    [found] = beam_search([problem()], same, budget=8)
    assert [path.text for path in found.paths] == ["a\nx"]
    assert found.cost.completion_tokens == 8 + 2


def test_the_mean_does_not_prefer_short_paths():
    """A path of 1 token at -1 against one of 4 tokens at -2: the sum takes the first, the mean
    (-0.5 a token) the second."""

    def answer(_prompt, seed):
        return ["s", "l l l l"][seed % 2]

    def sums(_prompt, text):
        return {"s": -1.0, "l l l l": -2.0}[text]

    def first(value):
        params = BeamParams(expansion=2, value=value)
        [found] = beam_search([problem()], setting(answer, logprob=sums, beam=params), budget=2)
        return found.paths[0].text

    assert (first("likelihood"), first("mean-logprob")) == ("s", "l l l l")


class SureOfC:
    """A scorer that is sure of paths that begin with c."""

    def __init__(self):
        self.asked = []

    def score(self, texts):
        self.asked += texts
        return [TextScore(self_certainty=float("c" in one.text), read_tokens=3) for one in texts]


def test_self_certainty_as_value_and_what_it_reads():
    """c is the least likely that is kept by its certainty; scored are 4 branches, then 4."""
    scorer = SureOfC()
    certain = setting(letters, scorer=scorer, beam=BeamParams(expansion=4, value="self-certainty"))
    [found] = beam_search([problem()], certain, budget=4)
    assert found.paths[0].text.startswith("c\n")
    assert found.cost.scoring_tokens == 3 * len(scorer.asked) == 3 * (4 + 2)
    assert [one.ended for one in scorer.asked] == [False] * 4 + [True] * 2


def test_a_path_never_gets_more_tokens_than_one_completion_may():
    """With 3 tokens left in all, steps of 2 tokens leave 1 for the second one."""
    endless = setting(
        lambda *_: "u v\nw", logprob=lambda *_: -1.0, max_new_tokens=3, beam=LIKELIHOOD
    )
    [found] = beam_search([problem()], endless, budget=2)
    [path] = found.paths
    assert (path.tokens, path.finish_reason) == (3, FinishReason.LENGTH)
    assert path.text == "u v\nu"


def test_after_the_last_step_a_branch_is_drawn_to_its_end():
    """With two steps allowed, the second draw does not stop at a step."""
    lines = setting(lambda *_: "a\na\na", logprob=lambda *_: -1.0, max_steps=2, beam=LIKELIHOOD)
    [found] = beam_search([problem()], lines, budget=2)
    assert [path.text for path in found.paths] == ["a\na\na\na"]


def test_failed_requests_leave_no_path():
    """Nothing is invented, and the calls are counted."""
    [found] = beam_search([problem()], setting(lambda *_: None, beam=LIKELIHOOD), budget=2)
    assert found.paths == ()
    assert (found.cost.calls, found.cost.failed_calls) == (2, 2)


def test_problems_do_not_disturb_each_other():
    """Searched together or alone, each problem's paths and costs are the same."""
    by_problem = {"p": "Q ", "r": "Q R "}

    def answer(prompt, seed):
        return "abcd"[seed % 4] + ("\n" if "\n" not in prompt else "")

    def run(names):
        own = setting(answer, logprob=lambda _, text: -float(ord(text[0])), beam=LIKELIHOOD)
        return beam_search([problem(n, by_problem[n]) for n in names], own, budget=4)

    assert run(["p", "r"]) == [*run(["p"]), *run(["r"])]


@pytest.mark.parametrize("budget", [1, 3])
def test_a_budget_that_is_no_multiple_is_bad_input(budget):
    """The message names the param."""
    with pytest.raises(BadInputError, match=r"beam\.expansion=2"):
        beam_search([problem()], setting(letters, beam=LIKELIHOOD), budget=budget)


def test_an_engine_without_log_probabilities_is_bad_input():
    """A value is never made up."""
    with pytest.raises(BadInputError, match="no log-probability"):
        beam_search([problem()], setting(letters, beam=LIKELIHOOD), budget=2)
