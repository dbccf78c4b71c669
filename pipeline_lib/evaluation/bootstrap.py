"""Resampling over problems: the interval of a mean, and a test that the mean is zero.

The problem is the unit: paths of one problem are not independent, so they are never resampled on
their own. Axes: P problems, R resamples.

The plain percentile interval is too short for few problems, since it uses normal quantiles and a
variance over n; its tails are therefore taken where a t interval has them. Scores near 0 or 1 are
skewed, which BCa corrects; a difference is symmetric as long as nothing changed, and there BCa
would find gains too often. Simulated coverage is 93 to 97 % from 30 problems on. It stays below
that (about 90 %) only where all but a handful of problems have the same value.

Source: Efron 1987, "Better Bootstrap Confidence Intervals"; Hesterberg 2015, "What Teachers Should
Know About the Bootstrap", section 3 (expanded tails).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_generator

Floats = NDArray[np.float64]
_CHUNK_ELEMENTS = 1 << 22
_DECIMALS = 12
"""Resampled sums that cancel in exact arithmetic must compare equal to zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """One sample of problems with the sorted means of its resamples."""

    values_P: Floats
    means_R: Floats
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Correction:
    """What BCa knows of a bootstrap's asymmetry."""

    bias: float
    """z0: normal quantile of the share of resampled means below the mean."""
    acceleration: float
    """a: a sixth of the skewness of the mean."""


_SYMMETRIC = _Correction(bias=0.0, acceleration=0.0)


def resample(values_P: Floats, *, resamples: int, seed: int) -> Bootstrap:
    """Draw P problems with replacement ``resamples`` times.

    Raises:
        BadInputError: no problem.
    """
    if len(values_P) == 0:
        raise BadInputError("no problem to resample; evaluate at least one")
    generator = child_generator(seed, "bootstrap")
    num_problems = len(values_P)
    rounded_P = values_P.round(_DECIMALS)

    def means(size: int) -> Floats:
        drawn_RP: Floats = rounded_P[generator.integers(num_problems, size=(size, num_problems))]
        means_R: Floats = drawn_RP.mean(axis=1)
        return means_R

    return Bootstrap(
        values_P=rounded_P,
        means_R=np.sort(_in_chunks(means, resamples, num_problems)),
        mean=float(rounded_P.mean().round(_DECIMALS)),
    )


def _in_chunks(means: Callable[[int], Floats], resamples: int, num_problems: int) -> Floats:
    chunk = max(1, _CHUNK_ELEMENTS // num_problems)
    starts = range(0, resamples, chunk)
    means_R: Floats = np.concatenate([means(min(chunk, resamples - start)) for start in starts])
    return means_R.round(_DECIMALS)


def _bca_correction(bootstrap: Bootstrap) -> _Correction:
    """Bias and acceleration of a mean. Source: Efron 1987, equations 4.1 and 6.6."""
    means_R, mean = bootstrap.means_R, bootstrap.mean
    below = np.count_nonzero(means_R < mean) + np.count_nonzero(means_R == mean) / 2
    share = min(max(below, 1), len(means_R) - 1) / len(means_R)
    deviations_P = bootstrap.values_P - bootstrap.values_P.mean()
    spread = float((deviations_P**2).sum()) ** 1.5
    return _Correction(
        bias=float(stats.norm.ppf(share)),
        acceleration=float((deviations_P**3).sum()) / (6 * spread),
    )


def interval(
    bootstrap: Bootstrap,
    *,
    level: float,
    support: tuple[float, float],
    skewed: bool = False,
) -> Interval:
    """Interval of the mean.

    Args:
        bootstrap: from :func:`resample`.
        level: confidence, e.g. 0.95.
        support: the lowest and the highest value that is possible; never left.
        skewed: correct for bias and skewness (BCa).
    """
    mean, (low, high) = bootstrap.mean, support
    num_problems = len(bootstrap.values_P)
    if np.ptp(bootstrap.values_P) == 0:
        chance = _other_value_chance(num_problems, level=level)
        low, high = mean - chance * (mean - low), mean + chance * (high - mean)
        return Interval(value=mean, low=low, high=high, level=level)
    correction = _bca_correction(bootstrap) if skewed else _SYMMETRIC
    quantile = _expanded_quantile((1 - level) / 2, num_problems)
    num_ranks = len(bootstrap.means_R) + 1
    low_rank = int(stats.norm.cdf(_corrected(quantile, correction)) * num_ranks)
    high_rank = int(stats.norm.sf(_corrected(-quantile, correction)) * num_ranks)
    if low_rank > 0:
        low = min(float(bootstrap.means_R[low_rank - 1]), mean)
    if high_rank > 0:
        high = max(float(bootstrap.means_R[-high_rank]), mean)
    return Interval(value=mean, low=low, high=high, level=level)


def _other_value_chance(num_problems: int, *, level: float) -> float:
    """Upper bound of the chance of a value that none of ``num_problems`` equal values showed.

    Equal values must not pass for certainty: with chance q of another value all n agree with chance
    (1 - q)^n, so q <= 1 - (1 - level)^(1/n), about 3/n.
    """
    return float(1 - (1 - level) ** (1 / num_problems))


def _expanded_quantile(tail: float, num_problems: int) -> float:
    """Normal quantile (negative) at which the bootstrap has the t interval's ``tail``."""
    expansion = (num_problems / (num_problems - 1)) ** 0.5
    return float(expansion * stats.t.ppf(tail, num_problems - 1))


def _corrected(quantile: float, correction: _Correction) -> float:
    """BCa's correction; past its pole no resample is far enough."""
    shifted = correction.bias + quantile
    room = 1 - correction.acceleration * shifted
    return correction.bias + shifted / room if room > 0 else float(np.copysign(np.inf, shifted))


def sign_flip_p_value(differences_P: Floats, *, resamples: int, seed: int) -> float:
    """Two-sided p-value of no difference, by random exchanges of the two policies in each problem.

    If nothing changed, each difference is as likely with the other sign. For single paths this is
    McNemar's test. Source: Fisher 1935, "The Design of Experiments", section 21.
    """
    generator = child_generator(seed, "signs")
    num_problems = len(differences_P)

    def means(size: int) -> Floats:
        signs_RP = generator.integers(2, size=(size, num_problems)) * 2 - 1
        means_R: Floats = signs_RP @ differences_P / num_problems
        return means_R

    means_R = _in_chunks(means, resamples, num_problems)
    observed = abs(differences_P.mean().round(_DECIMALS))
    return float((np.count_nonzero(np.abs(means_R) >= observed) + 1) / (resamples + 1))
