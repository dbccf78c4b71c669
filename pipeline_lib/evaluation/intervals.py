"""Confidence intervals: the bootstrap over problems, and Wilson's for one path a problem.

The problem is the unit: paths of one problem are not independent, so they are never resampled on
their own. Axes: P problems, R resamples.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Interval
from pipeline_lib.seeding import child_generator

Floats = NDArray[np.float64]
UNIT_SUPPORT = (0.0, 1.0)
_CHUNK_ELEMENTS = 1 << 22
_DECIMALS = 12
"""Resampled sums that cancel in exact arithmetic must compare equal to zero."""


def bootstrap_interval(
    values_P: Floats,
    *,
    resamples: int,
    level: float,
    seed: int,
    support: tuple[float, float] = UNIT_SUPPORT,
) -> Interval:
    """Interval of the mean over problems.

    Args:
        values_P: one number a problem, each within ``support``.
        resamples: bootstrap resamples over problems.
        level: confidence, e.g. 0.95.
        seed: of this interval alone.
        support: the lowest and the highest value that is possible.

    Raises:
        BadInputError: no problem.
    """
    means_R = resampled_means(values_P, resamples=resamples, seed=seed)
    return percentile_interval(values_P, means_R, level=level, support=support)


def resampled_means(values_P: Floats, *, resamples: int, seed: int) -> Floats:
    """Means of ``resamples`` draws of P problems with replacement, sorted: shape (R,)."""
    num_problems = len(values_P)
    if num_problems == 0:
        raise BadInputError("no problem to resample; evaluate at least one")
    generator = child_generator(seed, "bootstrap")
    chunk = max(1, _CHUNK_ELEMENTS // num_problems)
    means = []
    for start in range(0, resamples, chunk):
        size = (min(chunk, resamples - start), num_problems)
        means.append(values_P[generator.integers(num_problems, size=size)].mean(axis=1))
    sorted_R: Floats = np.sort(np.concatenate(means).round(_DECIMALS))
    return sorted_R


def percentile_interval(
    values_P: Floats, means_R: Floats, *, level: float, support: tuple[float, float]
) -> Interval:
    """Expanded percentile interval from sorted resampled means.

    The plain percentile interval is too short for few problems: it uses normal quantiles and a
    variance over n. Its tails are therefore taken at the place where a t interval has them.
    Simulated coverage is 94 to 96 % from 50 problems on. It stays below that where all but a
    handful of problems have the same value (pass@8 near 1), as for every bootstrap.

    Source: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 3.
    """
    mean = float(values_P.mean().round(_DECIMALS))
    low, high = support
    if np.ptp(values_P) == 0:
        chance = other_value_chance(len(values_P), level=level)
        return Interval(
            value=mean,
            low=mean - chance * (mean - low),
            high=mean + chance * (high - mean),
            level=level,
        )
    rank = int(expanded_tail((1 - level) / 2, len(values_P)) * (len(means_R) + 1))
    if rank > 0:
        low, high = float(means_R[rank - 1]), float(means_R[-rank])
    return Interval(value=mean, low=min(low, mean), high=max(high, mean), level=level)


def other_value_chance(num_problems: int, *, level: float) -> float:
    """Upper bound of the chance of a value that none of ``num_problems`` equal values showed.

    Resampling equal values shows no spread, which must not pass for certainty: with chance q of
    another value all n agree with chance (1 - q)^n, so q <= 1 - (1 - level)^(1/n), about 3/n.
    """
    return float(1 - (1 - level) ** (1 / num_problems))


def expanded_tail(tail: float, num_problems: int) -> float:
    """Tail of the bootstrap distribution that stands for ``tail`` of the mean's own."""
    spread = (num_problems / (num_problems - 1)) ** 0.5
    return float(stats.norm.cdf(spread * stats.t.ppf(tail, num_problems - 1)))


def contracted_tail(tail: float, num_problems: int) -> float:
    """Inverse of :func:`expanded_tail`."""
    spread = (num_problems / (num_problems - 1)) ** 0.5
    return float(stats.t.cdf(stats.norm.ppf(tail) / spread, num_problems - 1))


def wilson_interval(num_correct: int, num_problems: int, *, level: float) -> Interval:
    """Wilson's interval of a proportion: accuracy with one path a problem.

    Raises:
        BadInputError: no problem.
    """
    if num_problems == 0:
        raise BadInputError("no problem for Wilson's interval; evaluate at least one")
    bounds = stats.binomtest(num_correct, num_problems).proportion_ci(level, method="wilson")
    return Interval(
        value=num_correct / num_problems,
        low=float(bounds.low),
        high=float(bounds.high),
        level=level,
    )
