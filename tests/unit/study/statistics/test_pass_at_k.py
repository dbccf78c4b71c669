"""The unbiased estimator against its definition."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.study.statistics.pass_at_k import pass_at_k


def test_hand_worked_number():
    """Of 4 paths 1 is right: 3 of the 6 pairs hold it, so pass@2 = 0.5."""
    assert pass_at_k(4, 1, 2) == 0.5


@pytest.mark.parametrize("num_paths", range(1, 8))
def test_equals_brute_force_over_all_subsets(num_paths):
    """For every c and k the estimate is the share of k-subsets that hold a right path."""
    for num_correct, k in itertools.product(range(num_paths + 1), range(1, num_paths + 1)):
        right = [index < num_correct for index in range(num_paths)]
        subsets = list(itertools.combinations(right, k))
        assert pass_at_k(num_paths, num_correct, k) == sum(map(any, subsets)) / len(subsets)


@given(st.integers(1, 400), st.data())
def test_is_a_probability_that_grows_with_k(num_paths, data):
    """More paths never lower the chance, pass@1 is c / n, and large n lose no precision."""
    num_correct = data.draw(st.integers(0, num_paths))
    k = data.draw(st.integers(1, num_paths))
    value = pass_at_k(num_paths, num_correct, k)
    assert pass_at_k(num_paths, num_correct, 1) == num_correct / num_paths <= value <= 1


def test_one_right_path_among_very_many_is_not_rounded_away():
    """With c = 1 the estimate is k / n: here 1e-6, which 1 - (product of ratios) would blur."""
    assert pass_at_k(1_000_000, 1, 1) == 1e-6


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((3, 1, 4), "3 scored paths; an estimate at k=4"),
        ((3, 4, 1), "4 right of 3 paths"),
        ((3, -1, 1), "-1 right of 3 paths"),
        ((3, 1, 0), "k=0"),
    ],
)
def test_counts_without_an_estimate_are_refused(counts, message):
    """Fewer than k paths would bias the estimate, so they are an error, not a guess."""
    with pytest.raises(BadInputError, match=message):
        pass_at_k(*counts)
