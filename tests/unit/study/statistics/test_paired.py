"""The paired test: hand-worked cases and its agreement with itself. Its size is in `test_simulated`."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.study.statistics.intervals import (
    DifferenceFinding,
    PairedDifference,
    paired_difference,
)


def difference(base, trained, *, seed=0, resamples=2000):
    return paired_difference(
        np.array(base, dtype=float),
        np.array(trained, dtype=float),
        EvaluateParams(resamples=resamples),
        seed=seed,
    )


def test_a_claim_like_seven_of_twenty_to_eleven_of_twenty_is_no_gain():
    """4 problems gained, none lost, of 20: +20 points, but the interval holds zero.

    With 7 gained and 3 lost (the same totals) even more so.
    """
    lucky = difference([1] * 7 + [0] * 13, [1] * 11 + [0] * 9)
    usual = difference([1] * 7 + [0] * 13, [0] * 3 + [1] * 11 + [0] * 6)
    for found in (lucky, usual):
        assert found.interval.value == pytest.approx(0.2)
        assert found.finding is DifferenceFinding.NO_SIGNIFICANT_GAIN
        assert found.p_value > 0.05


def test_a_steady_gain_is_found_and_a_steady_loss_too():
    """200 problems that move by 0.1 +- 0.1: the half width is 1.97 * 0.1 / sqrt(200) = 0.014."""
    base = np.full(200, 0.4)
    trained = base + np.tile([0.0, 0.2], 100)
    gain, loss = difference(base, trained), difference(trained, base)
    assert gain.finding is DifferenceFinding.GAIN
    assert loss.finding is DifferenceFinding.SIGNIFICANTLY_LOWER
    assert gain.interval.low == pytest.approx(0.1 - 0.014, abs=0.002)
    assert gain.p_value < 0.01


@pytest.mark.parametrize(
    ("low", "high", "finding"),
    [
        (0.0, 0.2, DifferenceFinding.NO_SIGNIFICANT_GAIN),
        (1e-9, 0.2, DifferenceFinding.GAIN),
        (-0.2, 0.0, DifferenceFinding.NO_SIGNIFICANT_GAIN),
        (-0.2, -1e-9, DifferenceFinding.SIGNIFICANTLY_LOWER),
        (0.0, 0.0, DifferenceFinding.NO_SIGNIFICANT_GAIN),
    ],
)
def test_an_interval_that_ends_at_zero_holds_it(low, high, finding):
    """No difference is among the values that the data allow, whatever the p-value."""
    bounds = Interval(value=(low + high) / 2, low=low, high=high, level=0.95)
    found = PairedDifference(base=0.5, trained=0.5 + bounds.value, interval=bounds, p_value=0.001)
    assert found.finding is finding
    assert replace(found, p_value=0.06).finding is DifferenceFinding.NO_SIGNIFICANT_GAIN


@pytest.mark.parametrize(("num_problems", "expected"), [(5, 2 / 32), (6, 2 / 64)])
def test_equal_differences_are_judged_by_their_number(num_problems, expected):
    """Every problem from 0 to 1: of 2^n sign patterns 2 are as extreme, so 5 show nothing, 6 do."""
    found = difference([0] * num_problems, [1] * num_problems, resamples=20_000)
    assert found.p_value == pytest.approx(expected, abs=0.005)
    assert (found.finding is DifferenceFinding.GAIN) == (expected < 0.05)


def test_for_single_paths_the_test_is_mcnemars():
    """9 problems gained and 2 lost of 40: the exact p-value is 2 (1 + 11 + 55) / 2^11 = 0.0654."""
    base, trained = [0] * 9 + [1] * 2 + [1] * 29, [1] * 9 + [0] * 2 + [1] * 29
    found = difference(base, trained, resamples=50_000)
    assert found.p_value == pytest.approx(134 / 2048, abs=0.005)


def test_no_difference_has_p_one():
    """Two policies that agree everywhere: zero, p = 1, and the bound 1 - 0.05^(1/10) = 0.259."""
    found = difference([0.5] * 10, [0.5] * 10)
    assert found.p_value == 1
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.259, 0.259), abs=1e-3)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30))
def test_exchanging_the_policies_mirrors_the_verdict(counts):
    """A gain of one over the other is a loss of the other; the p-value is the same."""
    base, trained = np.array(counts).T / 8
    there, back = difference(base, trained, resamples=200), difference(trained, base, resamples=200)
    assert there.p_value == back.p_value
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert (there.finding is DifferenceFinding.GAIN) == (
        back.finding is DifferenceFinding.SIGNIFICANTLY_LOWER
    )


def test_few_changed_problems_leave_room_for_what_was_not_seen():
    """3 of 50 problems rise by 0.1: the others could hide losses, 0.006 - 0.058 (0.006 + 1) < 0."""
    found = difference([0.5] * 50, [0.6] * 3 + [0.5] * 47)
    assert found.interval.low == pytest.approx(0.006 - (1 - 0.05 ** (1 / 50)) * 1.006)
    assert found.finding is DifferenceFinding.NO_SIGNIFICANT_GAIN
