"""Invertible augmentations of a puzzle: a colour permutation, then a dihedral transform.

The identifier of a version encodes its augmentation, so that predictions can be mapped back to the
original: ``NAME|||t<dihedral id>|||<colour map>``. Translations are not encoded: cropping undoes
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pipeline_lib.grids import NUM_COLOURS
from pipeline_lib.systems.prr.data.vocabulary import Colours

SEPARATOR = "|||"
NUM_DIHEDRALS = 8
IDENTITY_COLOURS = tuple(range(NUM_COLOURS))
_TURN_NAMES = [f"t{dihedral}" for dihedral in range(NUM_DIHEDRALS)]
_DIGITS = "".join(map(str, IDENTITY_COLOURS))

_TURNS: Mapping[int, Callable[[Colours], Colours]] = {
    0: lambda grid: grid,
    1: lambda grid: grid.T[::-1],
    2: lambda grid: grid[::-1, ::-1],
    3: lambda grid: grid[::-1].T,
    4: lambda grid: grid[:, ::-1],
    5: lambda grid: grid[::-1],
    6: lambda grid: grid.T,
    7: lambda grid: grid[::-1, ::-1].T,
}
"""Dihedral transforms by id: identity, three counter-clockwise rotations, left-right and up-down
flips, transpose, anti-transpose."""
INVERSE_DIHEDRALS = (0, 3, 2, 1, 4, 5, 6, 7)


def apply_dihedral(grid: Colours, dihedral: int) -> Colours:
    """Apply the dihedral transform with this id; half of them swap height and width."""
    return _TURNS[dihedral](grid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """One version of a puzzle; the default is the identity."""

    dihedral: int = 0
    colours: tuple[int, ...] = IDENTITY_COLOURS
    """The new colour of each colour; a permutation. Black (0), the background, is fixed."""

    def apply(self, grid: Colours) -> Colours:
        """The augmented grid."""
        return apply_dihedral(np.array(self.colours, dtype=np.uint8)[grid], self.dihedral)

    def undo(self, grid: Colours) -> Colours:
        """Exact inverse of :meth:`apply`."""
        originals = np.argsort(self.colours).astype(np.uint8)
        return apply_dihedral(originals[grid], INVERSE_DIHEDRALS[self.dihedral])

    def name(self, puzzle: str) -> str:
        """Identifier of this version of ``puzzle``; the identity keeps the puzzle's id."""
        if self == Augmentation():
            return puzzle
        return f"{puzzle}{SEPARATOR}t{self.dihedral}{SEPARATOR}{''.join(map(str, self.colours))}"


def parse_version(identifier: str) -> tuple[str, Augmentation]:
    """Puzzle and augmentation of an identifier: the inverse of :meth:`Augmentation.name`.

    Raises:
        ValueError: the suffix is not a valid augmentation.
    """
    puzzle, *parts = identifier.split(SEPARATOR)
    if not parts:
        return puzzle, Augmentation()
    if len(parts) != 2 or parts[0] not in _TURN_NAMES or sorted(parts[1]) != sorted(_DIGITS):
        raise ValueError(
            f"{identifier!r} is not a version identifier such as 0a1d4ef5{SEPARATOR}t3{SEPARATOR}0987654321"
        )
    turn, digits = parts
    return puzzle, Augmentation(dihedral=_TURN_NAMES.index(turn), colours=tuple(map(int, digits)))


def draw_augmentation(rng: np.random.Generator) -> Augmentation:
    """A random dihedral transform and a random permutation of the nine non-black colours."""
    dihedral = int(rng.integers(NUM_DIHEDRALS))
    colours = (0, *(int(colour) + 1 for colour in rng.permutation(NUM_COLOURS - 1)))
    return Augmentation(dihedral=dihedral, colours=colours)
