"""Evaluations with a gain that is known: how often the study finds it, beside the power that is claimed.

Chances of both policies at a problem are Beta distributed, joined by a Gaussian copula; trainings add a normal shift.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.power import Spread, powers
from pipeline_lib.study.statistics.intervals import (
    DifferenceFinding,
    paired_difference,
    t_interval,
)

POOL = 200_000
"""Problems that a setting draws from."""


class Setting(NamedTuple):
    """Two policies and an evaluation."""

    accuracy: float
    gain: float
    share: float = 0.4
    """Of the variance of one outcome, between problems."""
    copula: float = 0.9
    problems: int = 200
    paths: int = 4
    seeds: int = 1
    shift: float = 0.0
    """Standard deviation of the accuracy over trainings."""
    same_problems: bool = False


SETTINGS = (
    Setting(0.5, 0.05, paths=1),
    Setting(0.5, 0.10, paths=1),
    Setting(0.5, 0.05),
    Setting(0.5, 0.05, paths=16),
    Setting(0.3, 0.10, copula=0.7, problems=50),
    Setting(0.1, 0.04, share=0.3, problems=150),
    Setting(0.9, 0.04, problems=150),
    Setting(0.6, 0.03, share=0.8, copula=0.97, paths=8),
    Setting(0.05, 0.03, share=0.3, paths=2),
    Setting(0.7, 0.04, problems=500, paths=2),
    Setting(0.5, 0.05, problems=100, seeds=3, shift=0.01),
    Setting(0.5, 0.08, problems=100, seeds=3, shift=0.02),
    Setting(0.5, 0.08, problems=100, seeds=3, shift=0.02, same_problems=True),
    Setting(0.4, 0.05, paths=2, seeds=5, shift=0.02, same_problems=True),
)


def claimed_and_found(one: Setting, *, runs: int, resamples: int):
    """Claims over problems and over seeds (None for one seed), and the shares of ``runs`` in which the gain is found."""
    generator = np.random.default_rng([one.problems, one.paths, one.seeds])
    correlation = [[1, one.copula], [one.copula, 1]]
    normal_PA = generator.multivariate_normal([0, 0], correlation, size=POOL)
    size = 1 / one.share - 1
    before, after = (
        stats.beta.ppf(stats.norm.cdf(column), mean * size, (1 - mean) * size)
        for column, mean in zip(normal_PA.T, (one.accuracy, one.accuracy + one.gain), strict=True)
    )
    params = EvaluateParams(resamples=resamples)
    found = np.zeros(2)
    for run in range(runs):
        scores = list(scores_by_seed(one, before, after, generator))
        pooled = np.mean(scores, axis=0) if one.same_problems else np.concatenate(scores, axis=1)
        finding = paired_difference(*pooled, params, seed=run).finding
        over_seeds = t_interval([float((new - old).mean()) for old, new in scores], params)
        found += finding is DifferenceFinding.GAIN, over_seeds is not None and over_seeds.low > 0
    return claims(one, before, after, params.confidence_level), found / runs


def scores_by_seed(one, before, after, generator):
    """Of each seed the shares of right paths by policy and problem."""
    drawn = generator.integers(POOL, size=one.problems)
    for _ in range(one.seeds):
        if not one.same_problems:
            drawn = generator.integers(POOL, size=one.problems)
        shifted = (after[drawn] + one.shift * generator.normal()).clip(0, 1)
        yield generator.binomial(one.paths, [before[drawn], shifted]) / one.paths


def claims(one, before, after, level):
    """By the variances of the chances, which a recorded evaluation estimates."""
    shifts = one.shift * stats.norm.ppf((np.arange(99) + 0.5) / 99)
    trained = [(after + shift).clip(0, 1) for shift in (shifts if one.shift else (0.0,))]
    spread = Spread(
        between=float(np.mean([own.var() for own in (new - before for new in trained)])),
        within=float(np.mean([before * (1 - before) + new * (1 - new) for new in trained])),
        seeds=float(np.var([new.mean() for new in trained])),
        same_problems=one.same_problems,
    )
    gain = float(np.mean([new.mean() for new in trained]) - before.mean())
    sizes = {"problems": one.problems, "paths": one.paths, "seeds": one.seeds}
    return powers(gain, spread, **sizes, level=level)
