"""Grids as sequences of tokens, as TRM and HRM write them, and back.

A square canvas holds padding (0), the grid's colours (c + 2) and end tokens (1): in the row below the
grid and in the column right of it, where they fit; their corner stays padding. Rows follow each other.
Nothing here knows what a puzzle is. Legend: L tokens of a canvas, H rows and W columns of a grid.
"""

import math

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


def colours_of(grid: Grid) -> Colours:
    """The grid as an array [H, W]."""
    return np.array(grid, dtype=np.uint8)


def grid_of_colours(colours_HW: Colours) -> Grid:
    """Inverse of :func:`colours_of`."""
    return tuple(map(tuple, colours_HW.tolist()))


def encode(colours_HW: Colours, *, side: int = MAX_SIDE, top: int = 0, left: int = 0) -> Tokens:
    """Tokens [side * side] of a grid whose upper left cell stands at row ``top``, column ``left``.

    Raises:
        ValueError: it does not fit there.
    """
    height, width = colours_HW.shape
    bottom, right = top + height, left + width
    if bottom > side or right > side:
        raise ValueError(f"{height}x{width} at {top},{left} does not fit into {side}x{side}")
    canvas = np.full((side, side), PAD, dtype=np.uint8)
    canvas[top:bottom, left:right] = colours_HW + FIRST_COLOUR
    # Slices: at the canvas' edge there is no row below or column right, and they are empty.
    canvas[bottom : bottom + 1, left:right] = END
    canvas[top:bottom, right : right + 1] = END
    return canvas.reshape(-1)


def crop(tokens_L: npt.NDArray[np.integer]) -> Grid | None:
    """The largest rectangle of colours that begins in the upper left cell, or None if there is none.

    Among equally large ones the one with the fewest rows counts. What a model writes elsewhere is
    not looked at, so a grid is read even where it failed to end it.

    Raises:
        ValueError: the tokens fill no square.
    """
    side = math.isqrt(len(tokens_L))
    if side * side != len(tokens_L):
        raise ValueError(f"{len(tokens_L)} tokens fill no square canvas")
    canvas = np.asarray(tokens_L).reshape(side, side)
    is_colour = (canvas >= FIRST_COLOUR) & (canvas < VOCAB_SIZE)
    # Columns that are colours in this row and in all above it, counted from the left.
    widths = np.minimum.accumulate(np.logical_and.accumulate(is_colour, axis=1).sum(axis=1))
    areas = widths * np.arange(1, side + 1)
    height = int(areas.argmax()) + 1
    if not areas[height - 1]:
        return None
    chosen = canvas[:height, : widths[height - 1]] - FIRST_COLOUR
    return grid_of_colours(chosen.astype(np.uint8))
