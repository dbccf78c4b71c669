"""Colour grids: as token sequences in the layout of TRM and HRM, and their invertible augmentations.

A square canvas, row by row, holds padding (0), the grid's colours (c + 2) and end tokens (1): in
the row below the grid and in the column right of it, where they fit; their corner stays padding.
An augmentation is a colour permutation, then a dihedral transform. The identifier of a version encodes it, so that
predictions can be mapped back: ``NAME|||t<dihedral id>|||<colour map>``. Translations are not encoded: cropping undoes
them.
Legend: L tokens of a canvas, H rows and W columns of a grid.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.grids import MAX_SIDE, NUM_COLOURS, Grid

PAD = 0
END = 1
FIRST_COLOUR = 2
VOCAB_SIZE = FIRST_COLOUR + NUM_COLOURS

Tokens = npt.NDArray[np.uint8]
Colours = npt.NDArray[np.uint8]
"""A grid of colours [H, W]."""


def grid_to_array(grid: Grid) -> Colours:
    """The grid as an array [H, W]."""
    return np.array(grid, dtype=np.uint8)


def array_to_grid(colours_HW: Colours) -> Grid:
    """Inverse of :func:`grid_to_array`."""
    return tuple(map(tuple, colours_HW.tolist()))


def encode(colours_HW: Colours, *, side: int = MAX_SIDE, top: int = 0, left: int = 0) -> Tokens:
    """Tokens [side * side] of a grid, which fits, with its upper left cell at row ``top``, column ``left``."""
    height, width = colours_HW.shape
    bottom, right = top + height, left + width
    canvas = np.full((side, side), PAD, dtype=np.uint8)
    canvas[top:bottom, left:right] = colours_HW + FIRST_COLOUR
    # Slices, because they are empty at the edge of the canvas.
    canvas[bottom : bottom + 1, left:right] = END
    canvas[top:bottom, right : right + 1] = END
    return canvas.reshape(-1)


def crop(tokens_L: npt.NDArray[np.integer]) -> Grid | None:
    """The largest rectangle of colours anchored at the upper left cell, or None if there is none.

    Ties go to the fewest rows. Tokens outside are ignored, so a grid is decoded even if the model
    omits its end tokens.
    """
    side = math.isqrt(len(tokens_L))
    canvas = np.asarray(tokens_L).reshape(side, side)
    is_colour = (canvas >= FIRST_COLOUR) & (canvas < VOCAB_SIZE)
    # Leading columns that are colours in this row and in all rows above it.
    widths = np.minimum.accumulate(np.logical_and.accumulate(is_colour, axis=1).sum(axis=1))
    areas = widths * np.arange(1, side + 1)
    height = int(areas.argmax()) + 1
    if not areas[height - 1]:
        return None
    chosen = canvas[:height, : widths[height - 1]] - FIRST_COLOUR
    return array_to_grid(chosen.astype(np.uint8))


SEPARATOR = "|||"
NUM_DIHEDRALS = 8
IDENTITY_COLOURS = tuple(range(NUM_COLOURS))
_TURN_NAMES = [f"t{dihedral}" for dihedral in range(NUM_DIHEDRALS)]
_DIGITS = "".join(map(str, IDENTITY_COLOURS))

_MIRRORED = {4: 0, 5: 2, 6: 1, 7: 3}
"""Quarter turns behind a left-right flip, by id of the transform."""
INVERSE_DIHEDRALS = (0, 3, 2, 1, 4, 5, 6, 7)


def apply_dihedral(grid: Colours, dihedral: int) -> Colours:
    """Apply the dihedral transform with this id; half of them swap height and width.

    0 is the identity, 1 to 3 are counter-clockwise rotations, 4 and 5 left-right and up-down flips, 6 and 7 the transpose
    and the anti-transpose.
    """
    if dihedral in _MIRRORED:
        return np.rot90(grid[:, ::-1], _MIRRORED[dihedral])
    return np.rot90(grid, dihedral)


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
