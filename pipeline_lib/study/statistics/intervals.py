"""Confidence intervals: bootstrap over problems, Wilson for one path per problem, t for few trainings."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_generator

Floats = NDArray[np.float64]
_CHUNK_ELEMENTS = 1 << 22
FEW_INFORMATIVE = 10
"""With fewer informative problems an interval is widened; see :func:`num_informative`."""
_NO_SKEWNESS = 1e-6
Ends = tuple[float, float]
"""Lower and upper end."""
_DECIMALS = 12
"""Rounding, so that resampled sums that cancel in exact arithmetic compare equal to zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Scores of problems and the sorted means of their resamples."""

    values_P: Floats
    means_R: Floats
    mean: float


_Correction = tuple[float, float]
"""BCa's bias z0, the normal quantile of the share of resampled means below the mean, and acceleration a, a sixth
of the skewness of the mean."""
_SYMMETRIC: _Correction = (0.0, 0.0)


def resample(values_P: Floats, *, resamples: int, seed: int) -> Bootstrap:
    """Draw P problems with replacement ``resamples`` times; BadInputError: there are no problems."""
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
    return float(stats.norm.ppf(share)), float((deviations_P**3).sum()) / (6 * spread)


def compute_interval(
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
        support: lowest and highest possible value; the interval is clipped to it.
        skewed: correct for bias and skewness.
    """
    low, high = _compute_ends(bootstrap, level=level, support=support, skewed=skewed)
    mean = bootstrap.mean
    return Interval(
        value=mean,
        low=min(max(low, support[0]), mean),
        high=max(min(high, support[1]), mean),
        level=level,
    )


def _compute_ends(
    bootstrap: Bootstrap, *, level: float, support: tuple[float, float], skewed: bool
) -> Ends:
    """Both ends, before clipping to the support."""
    unseen = _unseen_bounds(bootstrap, level=level, support=support)
    if np.ptp(bootstrap.values_P) == 0:
        return unseen
    few = num_informative(bootstrap.values_P) < FEW_INFORMATIVE
    if not skewed:
        seen = _resampled(bootstrap, _SYMMETRIC, level=level, support=support)
    elif few:
        seen = _transformed_t(bootstrap, level=level)
    else:
        early = _resampled(bootstrap, _bca_correction(bootstrap), level=level, support=support)
        late = _transformed_t(bootstrap, level=level)
        seen = (early[0] + late[0]) / 2, (early[1] + late[1]) / 2
    if not few:
        return seen
    return min(seen[0], unseen[0]), max(seen[1], unseen[1])


def num_informative(values_P: Floats) -> float:
    """Effective number of problems that determine the mean.

    The number of problems that differ from the most frequent value. If few of them dominate, their
    number is about n / skewness^2; that estimate is rough, hence the factor 2.
    """
    num_problems = len(values_P)
    different = num_problems - int(np.unique(values_P, return_counts=True)[1].max())
    skewness = float(stats.skew(values_P))
    return min(different, 2 * num_problems / max(skewness**2, 1e-9))


def _unseen_bounds(bootstrap: Bootstrap, *, level: float, support: tuple[float, float]) -> Ends:
    """Bounds of the mean if values at the ends of the support were missed by chance.

    A value of probability q is missed by all n problems with probability (1 - q)^n, so at this
    level q <= 1 - (1 - level)^(1/n), about 3/n at 95 %.
    """
    chance = float(1 - (1 - level) ** (1 / len(bootstrap.values_P)))
    mean, (low, high) = bootstrap.mean, support
    return mean - chance * (mean - low), mean + chance * (high - mean)


def _resampled(
    bootstrap: Bootstrap, correction: _Correction, *, level: float, support: tuple[float, float]
) -> Ends:
    """Quantiles of the resampled means at corrected levels; beyond the last one, the support."""
    quantile = _expanded_quantile((1 - level) / 2, len(bootstrap.values_P))
    num_ranks = len(bootstrap.means_R) + 1
    low_rank = int(stats.norm.cdf(_corrected(quantile, correction)) * num_ranks)
    high_rank = int(stats.norm.sf(_corrected(-quantile, correction)) * num_ranks)
    return (
        float(bootstrap.means_R[low_rank - 1]) if low_rank > 0 else support[0],
        float(bootstrap.means_R[-high_rank]) if high_rank > 0 else support[1],
    )


def _transformed_t(bootstrap: Bootstrap, *, level: float) -> Ends:
    """Hall's interval: a t interval of the mean with the skewness of its statistic removed.

    With skewness g, the statistic T is transformed to T + g T^2 / 3 + g^2 T^3 / 27 + g / 6n, which
    has no skewness to second order and is inverted in closed form.
    """
    num_problems = len(bootstrap.values_P)
    deviations_P = bootstrap.values_P - bootstrap.values_P.mean()
    spread = float(deviations_P.std())
    skewness = float((deviations_P**3).mean()) / spread**3
    reach = float(stats.t.isf((1 - level) / 2, num_problems - 1)) / (num_problems - 1) ** 0.5

    def end(statistic: float) -> float:
        if abs(skewness) < _NO_SKEWNESS:
            return bootstrap.mean - spread * statistic
        shifted = statistic - skewness / (6 * num_problems)
        root = float(np.cbrt(1 + skewness * shifted))
        return bootstrap.mean - spread * 3 * (root - 1) / skewness

    return end(reach), end(-reach)


def _expanded_quantile(tail: float, num_problems: int) -> float:
    """Normal quantile (negative) at which the bootstrap has the t interval's ``tail``."""
    expansion = (num_problems / (num_problems - 1)) ** 0.5
    return float(expansion * stats.t.ppf(tail, num_problems - 1))


def _corrected(quantile: float, correction: _Correction) -> float:
    """BCa's corrected quantile; infinite past its pole."""
    bias, acceleration = correction
    shifted = bias + quantile
    room = 1 - acceleration * shifted
    return bias + shifted / room if room > 0 else float(np.copysign(np.inf, shifted))


def sign_flip_p_value(differences_P: Floats, *, resamples: int, seed: int) -> float:
    """Two-sided p-value of no difference, by random sign flips of the differences.

    Under the null hypothesis both signs of a difference are equally likely. For single paths this
    is McNemar's test. Source: Fisher 1935, "The Design of Experiments", section 21.
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


_SCORE_SUPPORT = (0.0, 1.0)


def score_interval(values_P: Floats, params: EvaluateParams, *, seed: int) -> Interval:
    """Interval of the mean score over problems.

    Args:
        values_P: one score in [0, 1] per problem, such as its pass@k.
        params: resamples and confidence_level.
        seed: seed of this interval.

    Raises:
        BadInputError: there are no problems.
    """
    drawn = resample(values_P, resamples=params.resamples, seed=seed)
    level = params.confidence_level
    return compute_interval(drawn, level=level, support=_SCORE_SUPPORT, skewed=True)


def wilson_interval(num_correct: int, num_problems: int, params: EvaluateParams) -> Interval:
    """Wilson's interval of a proportion: accuracy with one path per problem.

    Raises:
        BadInputError: there are no problems.
    """
    if num_problems == 0:
        raise BadInputError("no problem for Wilson's interval; evaluate at least one")
    level = params.confidence_level
    bounds = stats.binomtest(num_correct, num_problems).proportion_ci(level, method="wilson")
    return Interval(
        value=num_correct / num_problems,
        low=float(bounds.low),
        high=float(bounds.high),
        level=level,
    )


def t_interval(values: Sequence[float], params: EvaluateParams) -> Interval | None:
    """Student's interval of the mean of differences in [-1, 1], as over trainings; None for a single one."""
    level = params.confidence_level
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / len(values) ** 0.5
    reach = error * float(stats.t.isf((1 - level) / 2, len(values) - 1))
    return Interval(
        value=mean, low=max(mean - reach, -1.0), high=min(mean + reach, 1.0), level=level
    )


_DIFFERENCE_SUPPORT = (-1.0, 1.0)


class DifferenceFinding(StrEnum):
    """Conclusion from a paired difference."""

    GAIN = "gain"
    NO_SIGNIFICANT_GAIN = "no significant gain"
    SIGNIFICANTLY_LOWER = "significantly lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Trained minus base, with an interval and a p-value from the same differences.

    Interval and p-value are not independent; a finding requires that they agree.
    """

    base: float
    trained: float
    interval: Interval
    p_value: float

    @property
    def finding(self) -> DifferenceFinding:
        """A gain or loss only if the interval excludes zero and the test is significant."""
        bounds = self.interval
        if self.p_value > 1 - bounds.level or bounds.low <= 0 <= bounds.high:
            return DifferenceFinding.NO_SIGNIFICANT_GAIN
        return DifferenceFinding.GAIN if bounds.low > 0 else DifferenceFinding.SIGNIFICANTLY_LOWER


def paired_difference(
    base_P: Floats, trained_P: Floats, params: EvaluateParams, *, seed: int
) -> PairedDifference:
    """Mean of ``trained_P - base_P`` with its bootstrap interval and sign-flip p-value.

    Raises:
        BadInputError: there are no problems.
    """
    differences_P = trained_P - base_P
    resamples, level = params.resamples, params.confidence_level
    drawn = resample(differences_P, resamples=resamples, seed=seed)
    return PairedDifference(
        base=float(base_P.mean()),
        trained=float(trained_P.mean()),
        interval=compute_interval(drawn, level=level, support=_DIFFERENCE_SUPPORT),
        p_value=sign_flip_p_value(differences_P, resamples=resamples, seed=seed),
    )
