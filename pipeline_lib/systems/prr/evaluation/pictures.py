"""Draws puzzles as SVG: input, target and the answers of all branches with scores and confidences.

Plain SVG without fonts, scripts or external resources. Tokens become coloured cells: ARC grids are
cropped and use the palette of the public viewer; elsewhere cells also show the token number.
Legend: K branches, L tokens.
"""

import html
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline_lib.systems.prr.data.grids import crop

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
    shown: list[tuple[Tokens, tuple[str, ...], bool]] = [
        (inputs_L, ("input",), False),
        (labels_L, ("target" if is_known else "target (secret)",), False),
    ]
    for branch, (output_L, note) in enumerate(zip(outputs_KL, notes_K, strict=True)):
        right = is_known and bool((output_L == labels_L)[asked_L].all())
        shown.append((output_L, (f"branch {branch}", note), right))
    parts, left, bottom = [], _GAP, 0
    for tokens_L, captions, is_right in shown:
        rows = _rows(tokens_L, is_arc=is_arc)
        width, height = max(map(len, rows)) * _CELL, len(rows) * _CELL
        parts += [
            f'<text class="caption" x="{left}" y="{11 + 12 * line}">{html.escape(caption)}</text>'
            for line, caption in enumerate(captions)
        ]
        parts += [
            _square(value, left + column * _CELL, _CAPTION + row * _CELL, is_arc=is_arc)
            for row, values in enumerate(rows)
            for column, value in enumerate(values)
        ]
        parts.append(
            f'<rect x="{left - 2}" y="{_CAPTION - 2}" width="{width + 4}" '
            f'height="{height + 4}" fill="none" stroke="{_FRAME[is_right]}" '
            f'stroke-width="{2 if is_right else 1}"/>'
        )
        left += max(width, _TEXT_WIDTH) + _GAP
        bottom = max(bottom, _CAPTION + height + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left}" height="{bottom}" '
        f'viewBox="0 0 {left} {bottom}" font-family="sans-serif" font-size="10">'
        f"{_STYLE}{''.join(parts)}</svg>"
    )


def _square(value: int, x: int, y: int, *, is_arc: bool) -> str:
    palette = _ARC_PALETTE if is_arc else _PALETTE
    square = (
        f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" '
        f'fill="{palette[value % len(palette)]}" stroke="#808080" stroke-width="0.5"/>'
    )
    number = f'<text x="{x + 4}" y="{y + 11}">{value}</text>'
    return square if is_arc else square + number


def _rows(tokens_L: Tokens, *, is_arc: bool) -> Sequence[Sequence[int]]:
    """The rows of the grid that the tokens show."""
    if is_arc:
        return crop(tokens_L) or ((),)
    values = tokens_L.tolist()
    side = math.isqrt(len(values))
    # A cue before a square grid gets a row of its own.
    cue, rest = (values[:1], values[1:]) if side * side + 1 == len(values) else ([], values)
    if side * side != len(rest):
        return [values]
    rows = [rest[start : start + side] for start in range(0, len(rest), side)]
    return [cue, *rows] if cue else rows
