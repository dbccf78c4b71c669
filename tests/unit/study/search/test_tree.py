"""Tree search: the arithmetic of UCT, and searches on a scripted model."""

import math

import pytest

from pipeline_lib.engines.scored_text import TextScore
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import TreeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.study.search.tree import (
    VALUES,
    Rollout,
    agreement,
    allowed_draws,
    tree_search,
    uct,
)
from tests.unit.study.search.scripted_search import problem, setting


def rollout(answer, *, logprob=None, certainty=None):
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
    assert agreement([rollout(a) for a in (0, 0, 1, None)]) == [0.5, 0.5, 0.25, 0]


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
    through_g = sum(path.text.startswith("g") for path in found.rollouts)
    assert through_g > 30
    [unguided] = tree_search(
        [problem()], setting(branches, tree=TreeParams(widening=100)), simulations=40
    )
    assert 8 < sum(path.text.startswith("g") for path in unguided.rollouts) < 32


def test_only_the_rest_is_drawn_below_the_root():
    """From the root 2 tokens ('g' and 'one\\n7'), below it 1: the cost is the sum so far, and
    simulations wait for each other."""
    one_child = TreeParams(widening=1, widening_power=0)
    [found] = tree_search(
        [problem()], setting(lambda prompt, _: branches(prompt, 1), tree=one_child), simulations=3
    )
    assert [path.text for path in found.rollouts] == ["g one\n7"] * 3
    assert [cost.completion_tokens for cost in found.costs] == [2, 3, 4]
    assert [cost.critical_tokens for cost in found.costs] == [2, 3, 4]
    assert [cost.prompt_tokens for cost in found.costs] == [1, 1 + 3, 1 + 3 + 3]


def test_the_beginning_of_a_search_does_not_depend_on_its_length():
    """So one search gives the whole curve."""
    own = setting(branches)
    [long] = tree_search([problem()], own, simulations=12)
    [short] = tree_search([problem()], own, simulations=5)
    assert long.rollouts[:5] == short.rollouts
    assert long.costs[:5] == short.costs


def test_problems_do_not_disturb_each_other():
    """Searched together or alone, each problem's rollouts and costs are the same."""

    def run(names):
        return tree_search([problem(n) for n in names], setting(branches), simulations=8)

    assert run(["p", "r"]) == [*run(["p"]), *run(["r"])]


def test_a_path_without_steps_is_drawn_from_the_root_each_time():
    """An ended child is no node to go on from, whatever its value."""
    [found] = tree_search([problem()], setting(lambda *_: "7"), simulations=5)
    assert [path.text for path in found.rollouts] == ["7"] * 5
    assert found.costs[-1].completion_tokens == 5


def test_failed_requests_are_no_rollouts():
    """They are counted as calls, and the others go on."""
    own = setting(lambda _, seed: None if seed % 2 else "7")
    [found] = tree_search([problem()], own, simulations=10)
    failed = sum(path is None for path in found.rollouts)
    assert 0 < failed < 10
    assert len(found.rollouts) == len(found.costs) == 10
    assert (found.costs[-1].calls, found.costs[-1].failed_calls) == (10, failed)


def test_a_path_that_is_too_long_as_a_whole_is_cut_where_it_was_drawn_from():
    """Prefix of 2 tokens and a rest of 2 exceed 3: the rollout is its prefix, cut off."""

    def long_rest(prompt, _seed):
        return "g one\n7" if prompt == "Q " else "u 7"

    narrow = TreeParams(widening=1, widening_power=0)
    own = setting(long_rest, max_new_tokens=3, tree=narrow)
    [found] = tree_search([problem()], own, simulations=2)
    assert found.rollouts[0].finish_reason is FinishReason.STOP
    assert found.rollouts[1].finish_reason is FinishReason.LENGTH
    assert found.rollouts[1].text == "g one\n"


class SureOfG:
    def score(self, texts):
        return [TextScore(self_certainty=float("g" in one.text), read_tokens=4) for one in texts]


def test_self_certainty_steers_as_well_and_is_accounted_for():
    """All further rollouts go through g; each rollout is read once, 4 tokens."""
    sure = TreeParams(widening=2, widening_power=0, exploration=0, value="self-certainty")
    own = setting(branches, scorer=SureOfG(), tree=sure)
    [found] = tree_search([problem()], own, simulations=12)
    assert found.costs[-1].scoring_tokens == 48
    assert all(path.text.startswith("g") for path in found.rollouts[2:])


def test_values_that_need_log_probabilities_refuse_engines_without():
    """A value is never made up."""
    own = setting(branches, tree=TreeParams(value="mean-logprob"))
    with pytest.raises(BadInputError, match="no log-probability"):
        tree_search([problem()], own, simulations=4)
