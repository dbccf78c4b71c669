"""Judge of ARC grids: an answer is right if its grid equals the gold, shape included.

The requested format (strict) is a last fenced block of rows, one per line, digits separated by
spaces. The lenient score also accepts a grid in another notation in that block or in ``<answer>``
tags, whichever come later, else the last list of lists or lines of digits in plain text.
Nothing is evaluated; all functions take linear time.
"""

import re
from collections import deque
from collections.abc import Sequence
from enum import StrEnum

from pipeline_lib.grids import Grid, grid_json, grid_of
from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.answer_text import (
    FencedBlock,
    fenced_blocks,
    plain,
    strip_reasoning,
    unix_lines,
)
from pipeline_lib.verify.judges import pure_judge_opener

MAX_SEARCHED_CHARS = 20_000
"""Of a longer block or text only the end is read; enough for 900 cells, one per line."""
MAX_ROW_CHARS = 200
MAX_SHOWN_CHARS = 200

_ANSWER_OPEN = "<answer>"
_ANSWER_CLOSE = "</answer>"
_ASKED_ROW = re.compile(r"[ \t]*+[0-9](?:[ \t]++[0-9])*+[ \t]*+")
# Possessive quantifiers prevent backtracking.
_ROW = re.compile(r"\s*+\[{0,3}+\s*+[0-9](?:[\s,]*+[0-9])*+[\s,]*+\]{0,3}+[\s,]*+")
_LISTS = re.compile(r"\[\s*+(?:\[[0-9\s,]*+\]\s*+,?\s*+)++\]")
_LIST = re.compile(r"\[([0-9\s,]*+)\]")
_NUMERAL = re.compile(r"[0-9]+")


class Rule(StrEnum):
    """Rule that found the grid; only the first is the strict format."""

    FENCED_ROWS = "fenced_rows"
    FENCED = "fenced"
    """In the last block, in another notation or with other text."""
    OPEN_FENCE = "open_fence"
    ANSWER_TAG = "answer_tag"
    LISTS = "lists"
    ROWS = "rows"


_Found = tuple[list[list[str]], Rule]
"""Rows of numerals as found in a text, possibly ragged or out of the range of colours, and the rule."""


def judge(gold: ArcGold, text: str) -> Verdict:
    """Judge one completion.

    ``unparsed``: no rule found digits in the form of a grid; both scores are then False.
    Digits that form no grid (ragged rows, two digits in a cell, too many rows) are ``wrong``.
    ``extracted`` is the grid as a list of lists, so that equal grids are equal texts.
    """
    found = _extract(text)
    if found is None:
        return Verdict(status=Status.UNPARSED, strict=False, lenient=False)
    rows, rule = found
    extracted = _listed(rows)[:MAX_SHOWN_CHARS]
    try:
        grid = _grid(rows)
    except ValueError as error:
        detail: str | None = str(error)
    else:
        detail = _difference(grid, gold.output)
        extracted = grid_json(grid)
    return Verdict(
        status=Status.CORRECT if detail is None else Status.WRONG,
        strict=detail is None and rule is Rule.FENCED_ROWS,
        lenient=detail is None,
        extracted=extracted,
        rule=rule.value,
        detail=detail,
    )


open_judge = pure_judge_opener(judge)


def answer_form(text: str) -> str | None:
    """The grid in a text as a list of lists, read without the gold; None if there is none."""
    found = _extract(text)
    return None if found is None else _listed(found[0])


def _extract(text: str) -> _Found | None:
    visible = unix_lines(strip_reasoning(text))
    blocks = fenced_blocks(visible)
    tagged = _tagged(visible)
    in_block = _in_block(blocks[-1]) if blocks else None
    in_tags = _last_written(visible[tagged]) if tagged else None
    if in_tags and tagged and (in_block is None or tagged.start > blocks[-1].start):
        return in_tags[0], Rule.ANSWER_TAG
    return in_block or _last_written(visible)


def _in_block(block: FencedBlock) -> _Found | None:
    if block.closed and (rows := _asked_rows(block.content)):
        return rows, Rule.FENCED_ROWS
    written = _last_written(block.content)
    return written and (written[0], Rule.FENCED if block.closed else Rule.OPEN_FENCE)


def _asked_rows(block: str) -> list[list[str]]:
    """The rows of a block in the requested format; empty if it contains anything else."""
    if len(block) > MAX_SEARCHED_CHARS:
        return []
    lines = plain(block).strip().split("\n")
    if not all(_ASKED_ROW.fullmatch(line) for line in lines):
        return []
    return [line.split() for line in lines]


def _tagged(text: str) -> slice | None:
    """The content of the last pair of answer tags; without a pair, the content of an open tag."""
    close = text.rfind(_ANSWER_CLOSE)
    start = text.rfind(_ANSWER_OPEN, 0, close if close >= 0 else len(text))
    if start < 0:
        return None
    end = text.find(_ANSWER_CLOSE, start)
    return slice(start + len(_ANSWER_OPEN), end if end >= 0 else len(text))


def _last_written(text: str) -> _Found | None:
    """The last list of lists, or run of lines of digits, in ``text``."""
    ending = plain(text[-MAX_SEARCHED_CHARS:])
    lists = next(iter(deque(_LISTS.finditer(ending), maxlen=1)), None)
    lines = ending.split("\n")
    rows = [_cells(line) for line in lines]
    last = max((number for number, row in enumerate(rows) if row), default=-1)
    # The lines of a list of lists also match as rows; the list takes precedence.
    if lists and lists.end() > sum(len(line) + 1 for line in lines[: max(last, 0)]):
        return [_NUMERAL.findall(row) for row in _LIST.findall(lists[0])], Rule.LISTS
    first = last
    while first > 0 and rows[first - 1]:
        first -= 1
    return (rows[first : last + 1], Rule.ROWS) if last >= 0 else None


def _cells(line: str) -> list[str]:
    """The cells of a line of digits; none if it is something else."""
    if len(line) > MAX_ROW_CHARS or not _ROW.fullmatch(line):
        return []
    numerals = _NUMERAL.findall(line)
    # Digits without separators are a row of one-digit cells.
    return list(numerals[0]) if len(numerals) == 1 else numerals


def _grid(rows: Sequence[Sequence[str]]) -> Grid:
    for number, row in enumerate(rows, start=1):
        for cell in row:
            if len(cell) > 1:
                raise ValueError(f"row {number} holds {cell[:20]}; a cell is one digit")
    return grid_of([[int(cell) for cell in row] for row in rows])


def _difference(grid: Grid, gold: Grid) -> str | None:
    if (len(grid), len(grid[0])) != (len(gold), len(gold[0])):
        return f"it is {_shape(grid)}, not {_shape(gold)}"
    places = [
        (row, column)
        for row, cells in enumerate(grid, start=1)
        for column, cell in enumerate(cells, start=1)
        if cell != gold[row - 1][column - 1]
    ]
    if not places:
        return None
    row, column = places[0]
    return f"{len(places)} cells differ, first row {row} column {column}"


def _shape(grid: Grid) -> str:
    return f"{len(grid)} rows of {len(grid[0])}"


def _listed(rows: Sequence[Sequence[str]]) -> str:
    return ",".join(f"[{','.join(row)}]" for row in rows)
