"""Draws puzzles as SVG: input, target and the answers of all branches with scores and confidences.

Plain SVG without fonts, scripts or external resources. Tokens become coloured cells: ARC grids are
cropped and use the palette of the public viewer; elsewhere cells also show the token number.
Legend: K branches, L tokens.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.systems.prr.data.vocabulary import crop

Tokens = npt.NDArray[np.uint8]

_CELL = 14
_GAP = 16
_CAPTION = 30
_TEXT_WIDTH = 96
_ARC_PALETTE = (
    "#000000", "#0074d9", "#ff4136", "#2ecc40", "#ffdc00",
    "#aaaaaa", "#f012be", "#ff851b", "#7fdbff", "#870c25",
)  # fmt: skip
_PALETTE = ("#f4f4f4", "#d9d9d9", *_ARC_PALETTE[1:])
_STYLE = (
    "<style>.caption{fill:#1c2024}@media(prefers-color-scheme:dark){.caption{fill:#e6e8ea}}</style>"
)
_FRAME = {True: "#1a7f37", False: "#b0b0b0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledGrid:
    """One grid with its captions."""

    tokens: Tokens
    captions: tuple[str, ...]
    is_right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Values of a grid [rows][columns]; None is an empty cell."""

    rows: list[list[int | None]]
    is_arc: bool

    @property
    def width(self) -> int:
        return max(len(row) for row in self.rows) * _CELL

    @property
    def height(self) -> int:
        return len(self.rows) * _CELL


def example_svg(
    *,
    inputs_L: Tokens,
    labels_L: Tokens,
    outputs_KL: Tokens,
    notes_K: Sequence[str],
    is_arc: bool,
) -> str:
    """Input, target and K outputs in one row; correct outputs have a green frame.

    Without labels no output counts as correct.
    """
    asked_L = labels_L > 0
    is_known = bool(asked_L.any())
    shown = [
        LabelledGrid(tokens=inputs_L, captions=("input",)),
        LabelledGrid(tokens=labels_L, captions=("target" if is_known else "target (secret)",)),
    ]
    for branch, (output_L, note) in enumerate(zip(outputs_KL, notes_K, strict=True)):
        right = is_known and bool((output_L == labels_L)[asked_L].all())
        shown.append(
            LabelledGrid(tokens=output_L, captions=(f"branch {branch}", note), is_right=right)
        )
    return _svg(shown, is_arc=is_arc)


def _svg(shown: Sequence[LabelledGrid], *, is_arc: bool) -> str:
    parts, left, bottom = [], _GAP, 0
    for one in shown:
        cells = _cells(one.tokens, is_arc=is_arc)
        parts.append(_grid(one, cells, left))
        left += max(cells.width, _TEXT_WIDTH) + _GAP
        bottom = max(bottom, _CAPTION + cells.height + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left}" height="{bottom}" '
        f'viewBox="0 0 {left} {bottom}" font-family="sans-serif" font-size="10">'
        f"{_STYLE}{''.join(parts)}</svg>"
    )


def _grid(one: LabelledGrid, cells: _Cells, left: int) -> str:
    texts = [
        f'<text class="caption" x="{left}" y="{11 + 12 * line}">{html.escape(caption)}</text>'
        for line, caption in enumerate(one.captions)
    ]
    squares = [
        _square(value, left + column * _CELL, _CAPTION + row * _CELL, is_arc=cells.is_arc)
        for row, values in enumerate(cells.rows)
        for column, value in enumerate(values)
        if value is not None
    ]
    frame = (
        f'<rect x="{left - 2}" y="{_CAPTION - 2}" width="{cells.width + 4}" '
        f'height="{cells.height + 4}" fill="none" stroke="{_FRAME[one.is_right]}" '
        f'stroke-width="{2 if one.is_right else 1}"/>'
    )
    return "".join((*texts, *squares, frame))


def _square(value: int, x: int, y: int, *, is_arc: bool) -> str:
    palette = _ARC_PALETTE if is_arc else _PALETTE
    square = (
        f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" '
        f'fill="{palette[value % len(palette)]}" stroke="#808080" stroke-width="0.5"/>'
    )
    number = f'<text x="{x + 4}" y="{y + 11}">{value}</text>'
    return square if is_arc else square + number


def _cells(tokens_L: Tokens, *, is_arc: bool) -> _Cells:
    if is_arc:
        grid = crop(tokens_L) or ((),)
        return _Cells(rows=[list(row) for row in grid], is_arc=True)
    values: list[int | None] = [int(token) for token in tokens_L]
    side = math.isqrt(len(values))
    # A cue before a square grid gets a row of its own.
    cue, rest = (values[:1], values[1:]) if side * side + 1 == len(values) else ([], values)
    if side * side != len(rest):
        return _Cells(rows=[values], is_arc=False)
    rows = [rest[start : start + side] for start in range(0, len(rest), side)]
    return _Cells(rows=[cue, *rows] if cue else rows, is_arc=False)
