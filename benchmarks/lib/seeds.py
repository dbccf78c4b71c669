"""Differences of several seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence

from scipy import stats


def mean_of(differences: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of independent differences; half-widths add like standard errors.

    Each seed draws its own problems, so the errors are independent. The interval covers these
    trainings only; that of other trainings is `over_seeds`.

    Args:
        differences: each with ``value``, ``low`` and ``high``.
    """
    each = list(differences)
    value = sum(found["value"] for found in each) / len(each)
    low, high = (
        math.sqrt(sum((found[side] - found["value"]) ** 2 for found in each)) / len(each)
        for side in ("low", "high")
    )
    return {"value": value, "low": value - low, "high": value + high}


def over_seeds(values: Sequence[float], *, level: float = 0.95) -> dict[str, float] | None:
    """Mean of the values of independent trainings with its t interval; None for fewer than two.

    Args:
        values: one a seed.
        level: of the interval, in (0, 1).
    """
    if len(values) < 2:
        return None
    value = sum(values) / len(values)
    margin = stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values)
    return {"value": value, "low": value - float(margin), "high": value + float(margin)}


def points(found: Mapping[str, float]) -> str:
    """A difference with its interval, in percentage points."""
    value, low, high = (100 * found[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
