"""Intervals: hand-worked ends and degenerate samples. Coverage is in `test_simulated`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.statistics.intervals import (
    Bootstrap,
    resample,
    score_interval,
    wilson_interval,
)
from pipeline_lib.study.statistics.intervals import compute_interval as bootstrap_interval


def interval(values, *, seed=0, resamples=2000):
    values_P = np.array(values, dtype=float)
    return score_interval(values_P, EvaluateParams(resamples=resamples), seed=seed)


def test_bootstrap_agrees_with_the_t_interval_on_a_symmetric_sample():
    """Values 0.2, 0.4, 0.6, 0.8 five times: 0.5 +- 2.093 s / sqrt(20) = 0.107, in steps of 0.01."""
    values = [0.2, 0.4, 0.6, 0.8] * 5
    half_width = stats.t.ppf(0.975, 19) * np.std(values, ddof=1) / np.sqrt(20)
    found = interval(values, resamples=20_000)
    assert found.value == 0.5
    assert found.high - found.value == pytest.approx(half_width, abs=0.01)
    assert found.value - found.low == pytest.approx(half_width, abs=0.01)


def test_equal_values_are_not_certainty():
    """20 of 20 problems solved: the truth may be as low as 1 - (1 - 0.05^(1/20)) = 0.861."""
    found = interval([1.0] * 20)
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(0.05 ** (1 / 20)) == pytest.approx(0.861, abs=1e-3)


def test_two_problems_say_nothing():
    """A t quantile with one degree of freedom lies beyond every resample: the whole support."""
    found = interval([0.0, 1.0])
    assert (found.low, found.high) == (0, 1)


def test_the_seed_decides_and_nothing_else():
    """Same seed, same interval; another seed moves the ends a little."""
    values = np.linspace(0, 1, 50) ** 2
    assert interval(values, seed=3) == interval(values, seed=3)
    assert interval(values, seed=3) != interval(values, seed=4)


def test_resampling_in_pieces_keeps_their_number():
    """3 million problems and 3 resamples: more elements than one piece holds."""
    means_R = resample(np.tile([0.0, 1.0], 1_500_000), resamples=3, seed=0).means_R
    assert means_R.shape == (3,)
    assert np.all(np.abs(means_R - 0.5) < 0.01)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_interval_holds_the_mean_within_the_support(values):
    """0 <= low <= mean <= high <= 1 for any scores."""
    found = interval(values, resamples=200)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_a_skewed_sample_has_a_skewed_interval():
    """18 of 20 problems at 1: there is more room below the mean of 0.9 than above it."""
    found = interval([1.0] * 18 + [0.0, 0.0], resamples=20_000)
    assert found.value - found.low > 1.5 * (found.high - found.value)


def even_bootstrap(values, *, top):
    """Resampled means at every 10,000th of ``top``, so that an end shows its level; half of them lie
    below the mean, which must be ``top / 2``, so BCa sees no bias.
    """
    values_P = np.array(values, dtype=float)
    means_R = top * np.arange(1, 10_000) / 10_000
    return Bootstrap(values_P=values_P, means_R=means_R, mean=float(values_P.mean()))


@pytest.mark.parametrize(("num_problems", "level"), [(12, 0.0107), (30, 0.0188), (300, 0.0243)])
def test_tails_lie_where_a_t_interval_has_them(num_problems, level):
    """Two-sided 95 %: the t quantiles 2.2010, 2.0452 and 1.9679 (11, 29 and 299 degrees of freedom)
    times sqrt(n / (n - 1)) are normal quantiles with tails of 1.07, 1.88 and 2.43 %, not 2.5 %.
    """
    bootstrap = even_bootstrap(np.linspace(0, 1, num_problems), top=1.0)
    found = bootstrap_interval(bootstrap, level=0.95, support=(0, 1))
    assert (found.low, found.high) == pytest.approx((level, 1 - level), abs=1.01e-4)


def test_bca_shifts_both_ends_by_the_acceleration():
    """10 of 40 problems at 1: skewness 1.1547, so a = 1.1547 / (6 sqrt(40)) = 0.03043. The quantiles
    -+2.0227 sqrt(40 / 39) = -+2.0485 become -2.0485 / (1 + 2.0485 a) = -1.9283 and
    2.0485 / (1 - 2.0485 a) = 2.1847, with tails of 2.69 and 1.44 % instead of 2.03 %: of means from 0
    to 0.5 the ends 0.01345 and 0.4928. The interval ends halfway to Hall's 0.1260 and 0.4155.
    """

    def hall(statistic):
        return 0.25 - 0.4330 * 3 * (np.cbrt(1 + 1.1547 * (statistic - 0.00481)) - 1) / 1.1547

    assert (hall(0.3239), hall(-0.3239)) == pytest.approx((0.1260, 0.4155), abs=1e-4)
    bootstrap = even_bootstrap([1.0] * 10 + [0.0] * 30, top=0.5)
    found = bootstrap_interval(bootstrap, level=0.95, support=(0, 1), skewed=True)
    assert found.low == pytest.approx((0.01345 + hall(0.3239)) / 2, abs=1e-4)
    assert found.high == pytest.approx((0.4928 + hall(-0.3239)) / 2, abs=1e-4)


def test_wilson_hand_worked():
    """7 of 20, z = 1.96: centre (0.35 + 0.0960) / 1.192 = 0.374, half width 0.193."""
    found = wilson_interval(7, 20, EvaluateParams())
    assert found.value == 0.35
    assert (found.low, found.high) == pytest.approx((0.1812, 0.5671), abs=1e-4)


def test_no_problem_has_no_interval():
    """An empty evaluation is bad input, not a division by zero."""
    with pytest.raises(BadInputError, match="no problem"):
        interval([])
    with pytest.raises(BadInputError, match="no problem"):
        wilson_interval(0, 0, EvaluateParams())


def test_few_differing_problems_leave_room_for_what_was_not_seen():
    """48 of 50 problems at 1, two at 0.9: a 51st could be 0 with chance 1 - 0.05^(1/50) = 0.058.

    So the mean of 0.996 may be as low as 0.996 (1 - 0.058) = 0.938; the two seen values alone
    would end the interval at about 0.97.
    """
    found = interval([1.0] * 48 + [0.9, 0.9])
    assert found.low == pytest.approx(0.996 * 0.05 ** (1 / 50))
    assert found.high > 0.999


def test_an_end_is_the_mean_of_two_corrections():
    """10 of 40 problems at 1, the others at 0: BCa ends at 16 / 40, Hall at 0.4155, we between.

    Hall: spread sqrt(0.25 * 0.75) = 0.4330, skewness 0.5 / 0.4330 = 1.1547, T = 2.0227 / sqrt(39) =
    0.3239, so 0.25 + 0.4330 * 3 (1 - cbrt(1 - 1.1547 (0.3239 + 1.1547 / 240))) / 1.1547 = 0.4155.
    """
    hall = 0.25 + 0.4330 * 3 * (1 - np.cbrt(1 - 1.1547 * (0.3239 + 1.1547 / 240))) / 1.1547
    assert hall == pytest.approx(0.4155, abs=1e-4)
    found = interval([1.0] * 10 + [0.0] * 30, resamples=20_000)
    assert found.high == pytest.approx((16 / 40 + 0.4155) / 2, abs=1e-4)
