"""Grids of colours, the values of ARC: validation and text forms.

Parsing of model output and comparison with a gold are in `verification`.
"""

import json
from collections.abc import Sequence
from typing import Any

Grid = tuple[tuple[int, ...], ...]
"""Rows of colours, top to bottom, left to right."""

NUM_COLOURS = 10
MAX_SIDE = 30


def grid_of(value: Any) -> Grid:
    """The grid in nested lists or tuples of integers.

    Raises:
        ValueError: ``value`` is not a grid; the message names the place and the fault in one line.
    """
    rows = tuple(_row(row, number) for number, row in enumerate(_listed(value, "a grid"), start=1))
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {number} has {len(row)} cells, row 1 has {len(rows[0])}")
    return rows


def _row(value: Any, number: int) -> tuple[int, ...]:
    row = tuple(_listed(value, f"row {number}"))
    for cell in row:
        # True is an int to Python and 1.0 equals one; neither is a colour.
        if type(cell) is not int or not 0 <= cell < NUM_COLOURS:
            shown = repr(cell)[:20]
            raise ValueError(f"row {number} holds {shown}; colours are 0 to {NUM_COLOURS - 1}")
    return row


def _listed(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is a list, not {type(value).__name__}")  # noqa: TRY004 - one error
    if not 1 <= len(value) <= MAX_SIDE:
        raise ValueError(f"{name} has {len(value)} entries; 1 to {MAX_SIDE} are possible")
    return value


def grid_text(grid: Grid) -> str:
    """One row per line, colours separated by spaces: the form in prompts and answers."""
    return "\n".join(" ".join(map(str, row)) for row in grid)


def grid_json(grid: Grid) -> str:
    """Canonical JSON, a list of lists without spaces; equal for equal grids alone."""
    return json.dumps(grid, separators=(",", ":"))
