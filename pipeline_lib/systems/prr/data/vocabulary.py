"""Encodes colour grids as token sequences in the layout of TRM and HRM, and decodes them.

A square canvas, row by row, holds padding (0), the grid's colours (c + 2) and end tokens (1): in
the row below the grid and in the column right of it, where they fit; their corner stays padding.
Legend: L tokens of a canvas, H rows and W columns of a grid.
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


def grid_to_array(grid: Grid) -> Colours:
    """The grid as an array [H, W]."""
    return np.array(grid, dtype=np.uint8)


def array_to_grid(colours_HW: Colours) -> Grid:
    """Inverse of :func:`grid_to_array`."""
    return tuple(map(tuple, colours_HW.tolist()))


def encode(colours_HW: Colours, *, side: int = MAX_SIDE, top: int = 0, left: int = 0) -> Tokens:
    """Tokens [side * side] of a grid with its upper left cell at row ``top``, column ``left``.

    Raises:
        ValueError: the grid exceeds the canvas.
    """
    height, width = colours_HW.shape
    bottom, right = top + height, left + width
    if bottom > side or right > side:
        raise ValueError(f"{height}x{width} at {top},{left} does not fit into {side}x{side}")
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

    Raises:
        ValueError: the number of tokens is not a square.
    """
    side = math.isqrt(len(tokens_L))
    if side * side != len(tokens_L):
        raise ValueError(f"{len(tokens_L)} tokens are not a square canvas")
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
