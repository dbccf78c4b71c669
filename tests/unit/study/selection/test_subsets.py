"""Means over subsets against a choice in every subset."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.study.selection.selectors import CandidatePath, make_selectors
from pipeline_lib.study.selection.subsets import mean_choice, mean_longest

SELECTORS = make_selectors(StrategyParams())

candidates = st.lists(
    st.builds(
        CandidatePath,
        answer=st.sampled_from([None, 0, 1, 2]),
        tokens=st.integers(1, 4),
        logprob=st.sampled_from([-4.0, -2.0, -1.0]),
        self_certainty=st.sampled_from([1.0, 2.0, 5.0]),
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
