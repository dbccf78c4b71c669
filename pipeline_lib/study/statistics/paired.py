"""Paired comparison of two policies on the same problems: the mean difference and a test.

Problems vary far more than policies, so differences are taken within problems. The caller aligns
the inputs. Axis: P problems.
"""

from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Interval
from pipeline_lib.study.statistics import resampling
from pipeline_lib.study.statistics.resampling import Floats

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
    drawn = resampling.resample(differences_P, resamples=resamples, seed=seed)
    return PairedDifference(
        base=float(base_P.mean()),
        trained=float(trained_P.mean()),
        interval=resampling.compute_interval(drawn, level=level, support=_DIFFERENCE_SUPPORT),
        p_value=resampling.sign_flip_p_value(differences_P, resamples=resamples, seed=seed),
    )
