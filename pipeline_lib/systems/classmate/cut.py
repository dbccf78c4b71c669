"""Prefixes of a chain: a share of its steps, cut before the answer is given away.

A step is a line, or what another separator ends. Blank lines belong to the step before them, and so do, in
shares, steps without a number or word that is new to the chain: neither repeats nor full stops move a cut. Text
with new words does. The steps that a share is taken of end with the first one that gives the answer away
(`leaks`): what follows it does not lengthen a prefix, and no prefix reaches it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline_lib.seeding import child_random


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The beginning of a chain that a peer continues."""

    text: str
    kept: int
    """Counted steps in ``text``."""
    leaked: bool
    """The same share of all steps would have given the answer away."""


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
    """The first ``floor(share x n)`` counted steps of a chain, with what is not counted between and behind them.

    A step counts if it has a new number or word; n ends with the step that gives the answer away, which counts.

    ``share`` is in (0, 1), ``first_leak`` the index of the step that gives the answer away; None if none does.
    """
    counted = [
        place for place, is_new in enumerate(_are_new(steps)) if is_new or place == first_leak
    ]
    ends = [place for place in counted if first_leak is None or place <= first_leak]
    kept = _count(share, len(ends))
    leaked = first_leak is not None and _count(share, len(counted)) >= len(ends)
    # What is not counted in front of the first counted step is in no empty prefix.
    text = "".join(steps[: ends[kept]]) if kept else ""
    return Prefix(text=text, kept=kept, leaked=leaked)


_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")


def _are_new(steps: Sequence[str]) -> Iterator[bool]:
    """True for each step with a number or word that is in no earlier step."""
    seen: set[str] = set()
    for step in steps:
        tokens = set(_TOKEN.findall(step.lower()))
        yield not tokens <= seen
        seen |= tokens


def _count(share: float, steps: int) -> int:
    # As written: 0.29 x 100 is 28.999999999999996 in floating point.
    return int(Fraction(str(share)) * steps)
