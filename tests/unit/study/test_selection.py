"""Selectors on small sets of candidates whose winners can be worked out by hand, and means over subsets."""

import itertools
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.study.selection import (
    BestOf,
    CandidatePath,
    MajorityVote,
    WeightedVote,
    borda_weights,
    likelihood,
    make_selectors,
    mean_choice,
    mean_logprob,
    mean_longest,
    self_certainty,
)

SELECTORS = make_selectors(StrategyParams())


def candidate(answer, *, tokens=10, logprob=-1.0, certainty=1.0, reward=None):
    return CandidatePath(
        answer=answer, tokens=tokens, logprob=logprob, self_certainty=certainty, reward=reward
    )


def test_likelihood_and_its_mean_disagree_about_length():
    """-2 over 10 tokens against -3 over 30: the sum prefers the first, the mean -0.1 the second."""
    pair = [candidate(0, tokens=10, logprob=-2.0), candidate(1, tokens=30, logprob=-3.0)]
    assert BestOf(likelihood).choose(pair) == [1, 0]
    assert BestOf(mean_logprob).choose(pair) == [0, 1]


def test_equals_share_the_choice():
    """Two of three are as certain: half each. Any path is one in three."""
    three = [candidate(i, certainty=c) for i, c in enumerate([2.0, 1.0, 2.0])]
    assert BestOf(self_certainty).choose(three) == [0.5, 0, 0.5]
    assert SELECTORS[Strategy.SINGLE].choose(three) == [1 / 3] * 3


def test_the_highest_reward_is_chosen():
    """Also below zero; of two of the three paths it is the better one."""
    three = [candidate(i, reward=r) for i, r in enumerate([-2.0, -0.5, -1.0])]
    assert SELECTORS[Strategy.REWARD].choose(three) == [0, 1, 0]
    chances = mean_choice(SELECTORS[Strategy.REWARD], three, 2, max_subsets=9, seed=7)
    assert chances == pytest.approx([0, 2 / 3, 1 / 3])


def test_majority_shares_evenly_between_answers_then_within():
    """Answers 0, 0, 1, 1, 2: 0 and 1 tie, a half each, a quarter to each of their paths."""
    assert MajorityVote().choose([candidate(a) for a in (0, 0, 1, 1, 2)]) == [0.25] * 4 + [0]


def test_silence_casts_no_vote():
    """Three paths without an answer do not outvote one with one; if all are silent, all are alike."""
    assert MajorityVote().choose([candidate(a) for a in (None, None, None, 3)]) == [0, 0, 0, 1]
    assert MajorityVote().choose([candidate(None)] * 2) == [0.5, 0.5]


def test_a_weighted_vote_can_overrule_the_majority():
    """Answer 0 has weights 1 + 1, answer 1 has 2.5."""
    three = [candidate(0), candidate(0), candidate(1, certainty=2.5)]
    vote = WeightedVote(self_certainty)
    assert vote.choose(three) == [0, 0, 1]
    assert MajorityVote().choose(three) == [0.5, 0.5, 0]


def test_the_likelihood_vote_weighs_by_probability_a_token():
    """exp(-0.1) = 0.905 beats exp(-1) + exp(-1) = 0.736."""
    three = [candidate(0, logprob=-10), candidate(0, logprob=-10), candidate(1, logprob=-1)]
    assert 2 * math.exp(-1) < math.exp(-0.1)
    assert SELECTORS[Strategy.LIKELIHOOD_VOTE].choose(three) == [0, 0, 1]


def test_borda_votes_by_rank():
    """Ranks 1, 3, 2 of three with power 2 give 9, 1, 4 votes."""
    assert borda_weights([9.0, 1.0, 5.0], power=2) == [9, 1, 4]


def test_equal_ranks_share_their_borda_votes():
    """Certainties 5, 5, 1 with power 1: ranks 1 and 2 give 3 and 2 votes, so 2.5 each."""
    assert borda_weights([5.0, 5.0, 1.0], power=1) == [2.5, 2.5, 1]


def test_borda_with_power_zero_is_the_majority():
    """Every rank gives one vote."""
    six = [
        candidate(a, certainty=c) for a, c in zip([0, 1, 1, 2, 2, 2], range(6, 0, -1), strict=True)
    ]
    borda = WeightedVote(self_certainty, partial(borda_weights, power=0))
    assert borda.choose(six) == MajorityVote().choose(six)


def test_the_borda_power_of_the_params_decides():
    """Answer 0 on rank 1 against answer 1 on ranks 2 and 3: 3 = 2 + 1 ties at power 1; power 2
    gives 9 against 5."""
    three = [candidate(0, certainty=3), candidate(1, certainty=2), candidate(1, certainty=1)]
    even = make_selectors(StrategyParams(borda_power=1))[Strategy.BORDA_VOTE]
    steep = make_selectors(StrategyParams(borda_power=2))[Strategy.BORDA_VOTE]
    assert even.choose(three) == [0.5, 0.25, 0.25]
    assert steep.choose(three) == [1, 0, 0]


def test_a_path_without_log_probability_is_bad_input():
    """A selector never invents a value; the message names what to leave out."""
    with pytest.raises(BadInputError, match="mean-logprob"):
        BestOf(likelihood).choose([candidate(0, logprob=None)])


candidates = st.lists(
    st.builds(
        CandidatePath,
        answer=st.sampled_from([None, 0, 1, 2]),
        tokens=st.integers(1, 4),
        logprob=st.sampled_from([-4.0, -2.0, -1.0]),
        self_certainty=st.sampled_from([1.0, 2.0, 5.0]),
        reward=st.sampled_from([-1.0, 0.0, 2.0]),
    ),
    min_size=1,
    max_size=7,
)


def brute_force(selector, ones, size):
    """Choose in each subset and average."""
    totals, subsets = [0.0] * len(ones), list(itertools.combinations(range(len(ones)), size))
    for places in subsets:
        for place, chance in zip(places, selector.choose([ones[p] for p in places]), strict=True):
            totals[place] += chance / len(subsets)
    return totals


@pytest.mark.parametrize("strategy", SELECTORS)
@given(candidates, st.data())
def test_equals_brute_force(strategy, ones, data):
    """With few subsets, the mean of every selector is that over all of them, by formula or not."""
    size = data.draw(st.integers(1, len(ones)))
    found = mean_choice(SELECTORS[strategy], ones, size, max_subsets=100, seed=1)
    assert found == pytest.approx(brute_force(SELECTORS[strategy], ones, size))
    assert sum(found) == pytest.approx(1)


def test_the_order_of_candidates_makes_no_winner():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ as floats: with a silent path, the subset of the other six ties."""
    weights = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.1]
    seven = [
        CandidatePath(answer=answer, tokens=1, logprob=-1.0, self_certainty=weight)
        for answer, weight in zip([0, 0, 0, 1, 1, 1, None], weights, strict=True)
    ]
    selector = SELECTORS[Strategy.CERTAINTY_VOTE]
    assert selector.choose(seven[:6]) == pytest.approx([1 / 6] * 6)
    found = mean_choice(selector, seven, 6, max_subsets=100, seed=1)
    assert found == pytest.approx(brute_force(selector, seven, 6))
    assert sum(found[:3]) == pytest.approx(0.5)


def many(num_paths):
    return [
        CandidatePath(answer=i % 3, tokens=i, logprob=-i / 7, self_certainty=(i * 5) % 11)
        for i in range(1, num_paths + 1)
    ]


def test_drawn_subsets_come_close_and_repeat():
    """8 of 12 have 495 subsets: 400 drawn ones give the exact chances within 0.06 (three standard
    errors of a share are at most 3 * 0.5 / 20), twice the same with one seed."""
    selector, ones = SELECTORS[Strategy.BORDA_VOTE], many(12)
    exact = brute_force(selector, ones, 8)
    found = mean_choice(selector, ones, 8, max_subsets=400, seed=1)
    assert found == mean_choice(selector, ones, 8, max_subsets=400, seed=1)
    assert found != mean_choice(selector, ones, 8, max_subsets=400, seed=2)
    assert found == pytest.approx(exact, abs=0.06)
    assert sum(found) == pytest.approx(1)


class Recorder:
    """A selector that notes the subsets it is given. Implements Selector."""

    def __init__(self) -> None:
        self.given: list[tuple[int, ...]] = []

    def choose(self, ones):
        return [1 / len(ones)] * len(ones)

    def mean_choice(self, ones, _size, subsets):
        self.given = [tuple(ones[place].tokens for place in places) for places in subsets()]
        return self.choose(ones)


@pytest.mark.parametrize("size", [1, 2, 8, 11])
@pytest.mark.parametrize("max_subsets", [10, 1000])
def test_every_subset_has_the_size_that_was_asked_for(size, max_subsets):
    """N of 12 paths have 12, 66, 495 and 12 subsets: all of them where 1,000 are allowed, else 10 drawn
    ones, each of N different paths. One path more would flatter every vote.
    """
    recorder = Recorder()
    mean_choice(recorder, many(12), size, max_subsets=max_subsets, seed=1)
    expected = math.comb(12, size) if max_subsets == 1000 else 10
    assert len(recorder.given) == expected
    assert all(len(tokens) == len(set(tokens)) == size for tokens in recorder.given)
    assert len({frozenset(tokens) for tokens in recorder.given}) > min(expected, 10) / 2


def test_all_paths_are_one_subset():
    """N = n is the selector's own choice."""
    selector, ones = SELECTORS[Strategy.CERTAINTY_VOTE], many(9)
    assert mean_choice(selector, ones, 9, max_subsets=1, seed=1) == selector.choose(ones)


@pytest.mark.parametrize("size", [0, 4])
def test_a_size_out_of_range_is_bad_input(size):
    """Neither none nor more than there are."""
    with pytest.raises(BadInputError, match="of 3 paths"):
        mean_choice(SELECTORS[Strategy.MAJORITY], many(3), size, max_subsets=1, seed=1)


def test_longest_of_two_by_hand():
    """Of lengths 1, 5, 3 the pairs have 5, 3, 5 as the longer: 13/3."""
    assert mean_longest([1, 5, 3], 2) == pytest.approx(13 / 3)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=7), st.data())
def test_longest_equals_brute_force(tokens, data):
    """The mean maximum over all subsets."""
    size = data.draw(st.integers(1, len(tokens)))
    subsets = list(itertools.combinations(tokens, size))
    assert mean_longest(tokens, size) == pytest.approx(sum(map(max, subsets)) / len(subsets))
