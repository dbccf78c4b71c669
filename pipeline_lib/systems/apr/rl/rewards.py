"""Rewards of rollouts of threads, all of them 0 for a wrong claim.

Without that gate a bonus for threads, or a penalty on them, is learned in place of the answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

_SPEED_WEIGHT = 0.5
_SPEED_LIMIT = 0.2
_LENGTH_UNIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutCounts:
    """The inputs of a reward."""

    is_right: bool
    children: int
    """Children with a sequence."""
    drawn_tokens: int
    """Of all threads, end tokens included."""
    critical_tokens: int
    """Of the parent and each round's longest child."""


def reward_of(counts: RolloutCounts, *, rule: str, penalty: float) -> float:
    """The reward by the rule of that name in `RULES`; ``penalty`` is the weight of those that have one."""
    return RULES[rule](counts, penalty) if counts.is_right else 0.0


def _binary(_counts: RolloutCounts, _penalty: float) -> float:
    return 1.0


def _speed(counts: RolloutCounts, _penalty: float) -> float:
    """1.1 at most: 1 + 0.5 min(1 - critical/drawn, 0.2)."""
    saved = 1 - counts.critical_tokens / counts.drawn_tokens
    return 1 + _SPEED_WEIGHT * min(saved, _SPEED_LIMIT)


def _threads(counts: RolloutCounts, penalty: float) -> float:
    return max(0.0, 1 - penalty * counts.children)


def _length(counts: RolloutCounts, penalty: float) -> float:
    return max(0.0, 1 - penalty * counts.drawn_tokens / _LENGTH_UNIT)


RULES: Mapping[str, Callable[[RolloutCounts, float], float]] = {
    "binary": _binary,
    "speed": _speed,
    "threads": _threads,
    "length": _length,
}
