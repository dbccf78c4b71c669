"""Beam and tree search on scripted models whose best paths are known."""

import math
from functools import partial

import pytest

from pipeline_lib.engines.chat_model import TextScore
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import BeamParams, TreeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.study.search import VALUES, Rollout, allowed_draws, beam_search, tree_search, uct
from tests.unit.study.scripted_search import problem, setting


class Sure:
    """A scorer that is sure of paths with a letter."""

    def __init__(self, letter):
        self.letter, self.asked = letter, []

    def score(self, texts):
        self.asked += texts
        return [
            TextScore(self_certainty=float(self.letter in one.text), read_tokens=3) for one in texts
        ]


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


def test_self_certainty_as_value_and_what_it_reads():
    """c is the least likely that is kept by its certainty; scored are 4 branches, then 4."""
    scorer = Sure("c")
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
    assert found.paths == [None]
    assert (found.cost.calls, found.cost.failed_calls) == (2, 2)


def test_an_engine_without_log_probabilities_is_bad_input():
    """A value is never made up."""
    own = setting(letters, beam=LIKELIHOOD, tree=TreeParams(value="mean-logprob"))
    with pytest.raises(BadInputError, match="no log-probability"):
        beam_search([problem()], own, budget=2)
    with pytest.raises(BadInputError, match="no log-probability"):
        tree_search([problem()], own, simulations=4)


def rollout(answer, *, logprob=None, certainty=0.0):
    return Rollout(answer=answer, logprob_per_token=logprob, certainty=certainty)


def test_uct_by_hand():
    """0.5 + 2 * sqrt(ln 8 / 2) = 0.5 + 2 * 1.01967 = 2.53934; with c = 0 the mean alone."""
    assert uct(0.5, 2, 8, exploration=2) == pytest.approx(2.53934, abs=1e-5)
    assert uct(0.5, 2, 8, exploration=0) == 0.5


def test_uct_prefers_the_less_visited_of_equals():
    """The bonus of 1 visit in 9 is three times that of 9 in 9."""
    bonus = uct(0, 1, 9, exploration=1)
    assert bonus == pytest.approx(3 * uct(0, 9, 9, exploration=1))
    assert bonus == pytest.approx(math.sqrt(math.log(9)))


@pytest.mark.parametrize(("visits", "expected"), [(0, 2), (1, 2), (4, 4), (5, 5), (9, 6)])
def test_widening_by_hand(visits, expected):
    """ceil(2 * n^0.5): 2, 2, 4, 4.47 up to 5, 6."""
    assert allowed_draws(visits, TreeParams(widening=2, widening_power=0.5)) == expected


def test_agreement_is_the_share_of_rollouts_with_the_answer():
    """Answers 0, 0, 1 and none: 2/4, 2/4, 1/4, and 0 for silence."""
    assert VALUES["agreement"]([rollout(a) for a in (0, 0, 1, None)]) == [0.5, 0.5, 0.25, 0]


def test_other_values_are_scaled_to_one():
    """-3, -1, -2 become 0, 1, 1/2; equals are all 1/2."""
    values = VALUES["mean-logprob"]([rollout(0, logprob=x) for x in (-3.0, -1.0, -2.0)])
    assert values == [0, 1, 0.5]
    assert VALUES["self-certainty"]([rollout(0, certainty=4.0)] * 2) == [0.5, 0.5]


def branches(prompt, seed):
    """A branch g after which every path ends in 7, and a branch b after which none agree."""
    if prompt == "Q ":
        return "g one\n7" if seed % 2 else f"b one\nx{seed}"
    return "7" if prompt.startswith("Q g") else f"x{seed}"


def test_rollouts_gather_where_answers_agree():
    """With values by agreement, more rollouts go through g than through b; without any search half
    of them would."""
    narrow = TreeParams(widening=2, widening_power=0.3, exploration=0.2)
    [found] = tree_search([problem()], setting(branches, tree=narrow), simulations=40)
    through_g = sum(path.text.startswith("g") for path in found.paths)
    assert through_g > 30
    [unguided] = tree_search(
        [problem()], setting(branches, tree=TreeParams(widening=100)), simulations=40
    )
    assert 8 < sum(path.text.startswith("g") for path in unguided.paths) < 32


def test_only_the_rest_is_drawn_below_the_root():
    """From the root 2 tokens ('g' and 'one\\n7'), below it 1: the cost is the sum so far, and
    simulations wait for each other."""
    one_child = TreeParams(widening=1, widening_power=0)
    [found] = tree_search(
        [problem()], setting(lambda prompt, _: branches(prompt, 1), tree=one_child), simulations=3
    )
    assert [path.text for path in found.paths] == ["g one\n7"] * 3
    assert [cost.completion_tokens for cost in found.costs] == [2, 3, 4]
    assert [cost.critical_tokens for cost in found.costs] == [2, 3, 4]
    assert [cost.prompt_tokens for cost in found.costs] == [1, 1 + 3, 1 + 3 + 3]


def test_the_beginning_of_a_search_does_not_depend_on_its_length():
    """So one search gives the whole curve."""
    own = setting(branches)
    [long] = tree_search([problem()], own, simulations=12)
    [short] = tree_search([problem()], own, simulations=5)
    assert long.paths[:5] == short.paths
    assert long.costs[:5] == short.costs


def starts(prompt, seed):
    return "abcd"[seed % 4] + ("\n" if "\n" not in prompt else "")


@pytest.mark.parametrize(
    "search", [partial(beam_search, budget=4), partial(tree_search, simulations=8)]
)
def test_problems_do_not_disturb_each_other(search):
    """Searched together or alone, each problem's paths and costs are the same."""

    def run(*prompts):
        own = setting(starts, logprob=lambda _, text: -float(ord(text[0])), beam=LIKELIHOOD)
        found = search([problem(prompt, prompt) for prompt in prompts], own)
        return [(one.paths, one.costs) for one in found]

    assert run("Q ", "Q R ") == [*run("Q "), *run("Q R ")]


def test_a_path_without_steps_is_drawn_from_the_root_each_time():
    """An ended child is no node to go on from, whatever its value."""
    [found] = tree_search([problem()], setting(lambda *_: "7"), simulations=5)
    assert [path.text for path in found.paths] == ["7"] * 5
    assert found.costs[-1].completion_tokens == 5


def test_failed_requests_are_no_rollouts():
    """They are counted as calls, and the others go on."""
    own = setting(lambda _, seed: None if seed % 2 else "7")
    [found] = tree_search([problem()], own, simulations=10)
    failed = sum(path is None for path in found.paths)
    assert 0 < failed < 10
    assert len(found.paths) == len(found.costs) == 10
    assert (found.costs[-1].calls, found.costs[-1].failed_calls) == (10, failed)


def test_a_path_that_is_too_long_as_a_whole_is_cut_where_it_was_drawn_from():
    """Prefix of 2 tokens and a rest of 2 exceed 3: the rollout is its prefix, cut off."""

    def long_rest(prompt, _seed):
        return "g one\n7" if prompt == "Q " else "u 7"

    narrow = TreeParams(widening=1, widening_power=0)
    own = setting(long_rest, max_new_tokens=3, tree=narrow)
    [found] = tree_search([problem()], own, simulations=2)
    assert found.paths[0].finish_reason is FinishReason.STOP
    assert found.paths[1].finish_reason is FinishReason.LENGTH
    assert found.paths[1].text == "g one\n"


def test_self_certainty_steers_as_well_and_is_accounted_for():
    """All further rollouts go through g; each rollout is read once, 3 tokens."""
    sure = TreeParams(widening=2, widening_power=0, exploration=0, value="self-certainty")
    own = setting(branches, scorer=Sure("g"), tree=sure)
    [found] = tree_search([problem()], own, simulations=12)
    assert found.costs[-1].scoring_tokens == 36
    assert all(path.text.startswith("g") for path in found.paths[2:])
