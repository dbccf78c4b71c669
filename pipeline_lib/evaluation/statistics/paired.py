"""Base against trained on the same problems: paired differences, McNemar's test, flips.

Problems differ far more than policies do, so only differences within a problem are compared.
Inputs are aligned by the caller. Axis: P problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy import stats

from pipeline_lib.evaluation.statistics import resampling
from pipeline_lib.evaluation.statistics.resampling import Floats
from pipeline_lib.records import Interval

_DIFFERENCE_SUPPORT = (-1.0, 1.0)
_HALF = 0.5


class Finding(StrEnum):
    """What may be said about a difference. There is nothing between a gain and none."""

    GAIN = "gain"
    NO_SIGNIFICANT_GAIN = "no significant gain"
    SIGNIFICANTLY_LOWER = "significantly lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Trained minus base, with an interval and a p-value from the same differences.

    They are not independent: both approximate the noise of one sample, and a finding asks that they
    agree.
    """

    base: float
    trained: float
    interval: Interval
    p_value: float

    @property
    def finding(self) -> Finding:
        """A difference counts only if the interval misses zero and the test agrees."""
        bounds = self.interval
        if self.p_value > 1 - bounds.level or bounds.low <= 0 <= bounds.high:
            return Finding.NO_SIGNIFICANT_GAIN
        return Finding.GAIN if bounds.low > 0 else Finding.SIGNIFICANTLY_LOWER


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """One path a problem: in how many problems only one of the two policies is right."""

    only_base: int
    only_trained: int
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A problem that moved across one half, with its pass@1 before and after."""

    problem_id: str
    base: float
    trained: float


def paired_difference(
    base_P: Floats, trained_P: Floats, *, resamples: int, level: float, seed: int
) -> PairedDifference:
    """Mean of ``trained_P - base_P`` with its bootstrap interval and sign-flip p-value.

    Raises:
        BadInputError: no problem.
    """
    differences_P = trained_P - base_P
    drawn = resampling.resample(differences_P, resamples=resamples, seed=seed)
    return PairedDifference(
        base=float(base_P.mean()),
        trained=float(trained_P.mean()),
        interval=resampling.interval(drawn, level=level, support=_DIFFERENCE_SUPPORT),
        p_value=resampling.sign_flip_p_value(differences_P, resamples=resamples, seed=seed),
    )


def mcnemar(base: Sequence[bool], trained: Sequence[bool]) -> McNemar:
    """McNemar's exact test: are the problems that only one policy solves evenly split?

    Source: McNemar 1947; the exact form is a sign test on the discordant problems.
    """
    only_base = sum(b and not t for b, t in zip(base, trained, strict=True))
    only_trained = sum(t and not b for b, t in zip(base, trained, strict=True))
    discordant = only_base + only_trained
    p_value = float(stats.binomtest(only_base, discordant).pvalue) if discordant else 1.0
    return McNemar(only_base=only_base, only_trained=only_trained, p_value=p_value)


def gained_flips(flips: Sequence[Flip]) -> tuple[Flip, ...]:
    """Problems that were mostly wrong and are mostly right, largest change first.

    One half exactly is neither mostly right nor mostly wrong.
    """
    gained = [flip for flip in flips if flip.base < _HALF < flip.trained]
    return tuple(sorted(gained, key=lambda flip: (flip.base - flip.trained, flip.problem_id)))


def lost_flips(flips: Sequence[Flip]) -> tuple[Flip, ...]:
    """Problems that were mostly right and are mostly wrong, largest change first."""
    lost = [flip for flip in flips if flip.trained < _HALF < flip.base]
    return tuple(sorted(lost, key=lambda flip: (flip.trained - flip.base, flip.problem_id)))
