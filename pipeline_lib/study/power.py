"""Power of a paired comparison: the chance that a study finds a gain that is there.

A path of the reference solves problem i with chance p_i, one of the arm with q_i. The mean difference on P problems with N
paths each has variance (Var(q - p) + W / N) / P, with W = E[p (1 - p)] + E[q (1 - q)]. Over problems a gain needs an
interval above 0, whose quantiles are those of a t interval, and a sign-flip test; over seeds a t interval above 0.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np
from scipy import stats

from pipeline_lib.errors import BadInputError
from pipeline_lib.study.seeds import compared_values
from pipeline_lib.study.stored import Evaluation

_NUMBERS = range(2, 1_000_001)
"""Of problems, among which the fewest are looked for."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_LEAST_VARIANCE = 1e-12
_MEAN = ("pass@1", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Variances of the difference between two policies."""

    between: float
    """Over problems: Var(q - p)."""
    within: float
    """Of single paths: W."""
    seeds: float = 0.0
    """Over trainings."""
    same_problems: bool = False
    """All seeds have the same problems."""


def assumed_spread(accuracy: float, gain: float, *, share: float, correlation: float) -> Spread:
    """From both accuracies, the share of an outcome's variance between problems, and the correlation of p and q.

    Raises:
        BadInputError: an accuracy is no fraction, or there is no gain.
    """
    if not 0 < accuracy < accuracy + gain <= 1:
        raise BadInputError(
            f"--accuracy {100 * accuracy:g} --difference {100 * gain:g}: give a gain with both accuracies in 0 to 100"
        )
    one, other = (chance * (1 - chance) for chance in (accuracy, accuracy + gain))
    between = one + other - 2 * correlation * (one * other) ** 0.5
    return Spread(between=share * between, within=(1 - share) * (one + other))


def recorded_spread(evaluations: Sequence[Evaluation]) -> Spread:
    """From the headline differences of finished evaluations, one a seed; paths add no bias.

    Raises:
        BadInputError: an evaluation has no difference of pass@1, or fewer than two paths per problem.
    """
    found, gains, problems = [], [], []
    for one in evaluations:
        head, counts = one.study.headline, [*one.study.compute.get("policies", {}).values()]
        values = compared_values(one, head) if head and head.measure == _MEAN[0] else None
        if not head or not values or not counts:
            raise BadInputError(
                f"{one.folder}: no difference of pass@1; give one like reports/loop"
            )
        posed = sum(point.n for point in one.study.points if (point.measure, point.subset) == _MEAN)
        posed += sum(count["left_out"] for count in counts)
        paths = sum(count["paths"] - count["unscored"] for count in counts) / max(posed, 1)
        if paths < 2:
            raise BadInputError(f"{one.folder}: needs 2 paths per problem, or give --accuracy")
        pairs_PA = np.array([*values.values()])
        within = float((pairs_PA * (1 - pairs_PA)).mean(axis=0).sum()) * paths / (paths - 1)
        observed = float(np.var(pairs_PA[:, 0] - pairs_PA[:, 1], ddof=1))
        found.append((max(observed - within / paths, 0.0), within, within / paths / head.n))
        gains.append(head.value)
        problems.append(values.keys())
    between, within, noise = map(fmean, zip(*found, strict=True))
    same = all(keys == problems[0] for keys in problems)
    chance = noise if same else noise + between / fmean(map(len, problems))
    seeds = max(variance(gains) - chance, 0.0) if len(gains) > 1 else 0.0
    return Spread(between=between, within=within, seeds=seeds, same_problems=same)


def _above_zero(gain: float, *, error: float, shift: float, freedom: int, level: float) -> float:
    """Chance that a t interval is above 0: ``error`` is the mean's variance that it estimates, ``shift`` further one."""
    reach = stats.t.isf((1 - level) / 2, freedom)
    distances = (gain + shift**0.5 * _NODES) / max(error, _LEAST_VARIANCE) ** 0.5
    return float(_WEIGHTS @ stats.nct.sf(reach, freedom, distances) / _WEIGHTS.sum())


def powers(
    gain: float, spread: Spread, *, problems: int, paths: int, seeds: int, level: float
) -> tuple[float, float | None]:
    """Chances to find ``gain`` over problems and, for several, over seeds; ``problems`` are those of one seed.

    One seed compares two given policies, several compare two ways to train.
    """
    alike = seeds if spread.same_problems else 1
    distinct, noise = problems * seeds // alike, spread.within / paths
    over_problems = _above_zero(
        # Sums of flipped signs are two outcomes apart, and a tie counts against the gain.
        gain - 1 / (problems * seeds * paths),
        error=(spread.between + noise / alike) / distinct,
        shift=spread.seeds / seeds if seeds > 1 else 0.0,
        freedom=distinct - 1,
        level=level,
    )
    if seeds == 1:
        return over_problems, None
    shared, own = (spread.between, 0.0) if spread.same_problems else (0.0, spread.between)
    error = (spread.seeds + (own + noise) / problems) / seeds
    shift, freedom = shared / problems, seeds - 1
    return over_problems, _above_zero(gain, error=error, shift=shift, freedom=freedom, level=level)


def fewest_problems(
    gain: float, spread: Spread, *, paths: int, seeds: int, level: float, power: float
) -> int | None:
    """Problems at which all chances reach ``power``; None: no number up to a million does."""

    def suffices(problems: int) -> bool:
        found = powers(gain, spread, problems=problems, paths=paths, seeds=seeds, level=level)
        return all(one is None or one >= power for one in found)

    place = bisect.bisect_left(_NUMBERS, 1, key=suffices)
    return _NUMBERS[place] if place < len(_NUMBERS) else None
