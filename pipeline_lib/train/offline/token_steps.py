"""The order of sequences in a training whose length is given in tokens.

Sequences are taken in a seeded order, again and again, until the tokens are used up. A step holds whole
sequences of up to a number of tokens. Within a step they are sorted by length and cut into passes, so that
short sequences are not padded to the length of long ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.seeding import child_generator

_COLUMNS = 16
_LOGITS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A sequence: token ids [L], end token included, and where its loss begins."""

    ids_L: npt.NDArray[np.int32]
    loss_from: int
    """First token with a loss; the first of all is never predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSteps:
    """Steps of a training: the places of the sequences of each."""

    steps: Sequence[Sequence[int]]
    tokens: int
    """Over all steps, without padding."""


def plan_steps(lengths: Sequence[int], *, tokens: int, step_tokens: int, seed: int) -> TokenSteps:
    """Steps of at most ``step_tokens`` that together hold at least ``tokens``; no length is above ``step_tokens``."""
    steps: list[list[int]] = []
    current: list[int] = []
    held = total = 0
    for place in _endless_order(len(lengths), seed):
        if held + lengths[place] > step_tokens:
            steps.append(current)
            total += held
            current, held = [], 0
            if total >= tokens:
                break
        current.append(place)
        held += lengths[place]
    return TokenSteps(steps=steps, tokens=total)


def _endless_order(count: int, seed: int) -> Iterator[int]:
    """All places in a seeded order, then all in another."""
    turn = 0
    while True:
        yield from child_generator(seed, "order", turn).permutation(count).tolist()
        turn += 1


def padded_length(longest: int) -> int:
    """The columns of a pass: a multiple of 16.

    On a CPU each new shape costs a compiled matrix product, and allocations of ever other sizes fragment the heap:
    a training with passes of all lengths took a sixth more time.
    """
    return -(-longest // _COLUMNS) * _COLUMNS


def padded_rows(count: int) -> int:
    """The rows of logits that are computed for ``count`` tokens, for the same reason."""
    return -(-count // _LOGITS) * _LOGITS


def cut_passes(lengths: Sequence[int], *, pass_tokens: int) -> list[list[int]]:
    """The places of a step's sequences by pass: longest first, with padding at most ``pass_tokens`` each.

    A sequence that is longer by itself is a pass of its own.
    """
    passes: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        # The first of a pass is its longest.
        if passes and (len(passes[-1]) + 1) * padded_length(lengths[passes[-1][0]]) <= pass_tokens:
            passes[-1].append(place)
        else:
            passes.append([place])
    return passes
