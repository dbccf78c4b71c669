"""Confidence intervals of scores: bootstrap over problems, Wilson for one path per problem."""

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


def wilson_interval(num_correct: int, num_problems: int, *, level: float) -> Interval:
    """Wilson's interval of a proportion: accuracy with one path per problem.

    Raises:
        BadInputError: there are no problems.
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
