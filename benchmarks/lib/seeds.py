"""Differences of several seeds."""

import math
from collections.abc import Iterable, Mapping


def mean_of(differences: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of independent differences; half-widths add like standard errors.

    Each seed draws its own problems, so the errors are independent. The interval covers these
    trainings only; the values of single seeds show the variation between trainings.

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


def points(found: Mapping[str, float]) -> str:
    """A difference with its interval, in percentage points."""
    value, low, high = (100 * found[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
