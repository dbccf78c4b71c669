"""Prefixes of a chain: a share of its steps, cut before the answer is given away.

A step is a line, or what another separator ends. Blank lines belong to the step before them, so they
neither add steps nor change a share. The steps that a share is taken of end with the first one that gives
the answer away (`leaks`): what follows it does not lengthen a prefix, and no prefix reaches it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline_lib.seeding import child_random


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The beginning of a chain that a peer continues."""

    text: str
    kept: int
    """Steps in ``text``."""
    leaked: bool
    """The same share of all steps would have given the answer away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncut:
    """In place of a prefix: it is unknown where the chain gives its answer away."""

    reason: str


def split_steps(chain: str, separator: str) -> list[str]:
    """The steps of ``chain``, each with the separators behind it; joined they are the chain, unless it is blank."""
    pieces = chain.split(separator)
    steps: list[str] = []
    opening = ""
    for number, piece in enumerate(pieces, 1):
        text = piece + separator * (number < len(pieces))
        if piece.strip():
            steps.append(opening + text)
            opening = ""
        elif steps:
            steps[-1] += text
        else:
            opening += text
    return steps


def draw_share(shares: Sequence[float], seed: int, *, step: int, problem_id: str) -> float:
    """One of ``shares``, the same for all paths of a problem at a training step.

    Shares that differed within a group would be noise in its advantages.
    """
    return child_random(seed, "classmate", "keep", step, problem_id).choice(shares)


def cut_chain(steps: Sequence[str], *, share: float, first_leak: int | None) -> Prefix:
    """The first ``floor(share x n)`` of ``steps``; n ends with the step that gives the answer away.

    Args:
        steps: all steps of the chain.
        share: in (0, 1).
        first_leak: index of the step that gives the answer away; None if none does.
    """
    kept = _count(share, len(steps) if first_leak is None else first_leak + 1)
    leaked = first_leak is not None and _count(share, len(steps)) > first_leak
    return Prefix(text="".join(steps[:kept]), kept=kept, leaked=leaked)


def _count(share: float, steps: int) -> int:
    # As written: 0.29 x 100 is 28.999999999999996 in floating point.
    return int(Fraction(str(share)) * steps)
