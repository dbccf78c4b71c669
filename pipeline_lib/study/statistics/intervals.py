"""Confidence intervals: bootstrap over problems, Wilson for one path per problem, t for few trainings."""

import statistics
from collections.abc import Sequence

from scipy import stats

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.study.statistics import resampling
from pipeline_lib.study.statistics.resampling import Floats

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
    drawn = resampling.resample(values_P, resamples=params.resamples, seed=seed)
    level = params.confidence_level
    return resampling.compute_interval(drawn, level=level, support=_SCORE_SUPPORT, skewed=True)


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
