r"""Extraction of the final answer of a mathematical text, with the rule that found it.

Rules, best first: the last ``\boxed{...}``; the last of ``#### x``, "answer is", ``<answer>`` and
``\fbox``; the last number. Prompts ask for the box, so only that rule is strict, and only outside
reasoning that was never ended. Tool calls and what follows the end of the turn are not read.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from pipeline_lib.verification.answer_text import final_turn, last_boxes, plain
from pipeline_lib.verification.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verification.math.sentences import (
    is_prose,
    last_match,
    only_number,
    stated_answer,
)

MAX_TAIL_CHARS = 8_000
"""Rules other than the box read only the last characters of a text."""

_HASHES = "####"
_ANSWER = re.compile(
    r"(?:\b(?i:answer)\b[^\w<>]{0,4}(?:\bis\b|:|=)|^\s{0,8}A:)[\s:*]{0,8}(?!<answer>)(?=\S)",
    re.MULTILINE,
)
_ANSWER_TAG = re.compile(r"<answer>\s{0,8}(?=[^\s<])")
_DISPLAY = re.compile(r"(?:\\\[|\$\$)[ \t]*\n\s{0,8}([^\n]{1,400})\n\s{0,8}(?:\\\]|\$\$)")
_EMPTY_BOX = re.compile(r"\$?\\boxed\{\s?\}\$?\.?")
_RETRACTED = re.compile(
    r"\b(?:wait|actually|correction|mistake|sorry|oops|instead|wrong|incorrect|no,)", re.IGNORECASE
)


class MathRule(StrEnum):
    """Rule that found the answer."""

    BOXED = "boxed"
    HASHES = "hashes"
    ANSWER_LINE = "answer_line"
    LAST_NUMBER = "last_number"
    REASONING = "reasoning"
    """A box in reasoning that was never ended."""


class Extraction(NamedTuple):
    """The answer as written, and the rule that found it."""

    answer: str
    rule: MathRule


def extract(text: str) -> Extraction | None:
    """The final answer of ``text``; None if no rule fires. Never raises."""
    visible, unfinished = final_turn(text)
    boxes = last_boxes(visible)
    if boxes and boxes[-1].strip():
        # "\boxed{1} and \boxed{2}" is one answer with two parts, unless both are the same number.
        values = {exact_value(normalize(box)) for box in boxes}
        same = len(values) == 1 and None not in values
        boxed = boxes[-1] if same else ", ".join(boxes)
        corrected = _correction(visible[visible.rfind("\\boxed") :], boxed)
        if corrected is not None:
            return Extraction(corrected, MathRule.ANSWER_LINE)
        return Extraction(boxed, MathRule.REASONING if unfinished else MathRule.BOXED)
    tail = plain(visible[-MAX_TAIL_CHARS:])
    tail = (_EMPTY_BOX.sub("", tail) if boxes else tail).rstrip()
    hashes = _after_hashes(tail)
    for marked, rule in (
        (_answer_line(tail, hashes[0] if hashes else 0), MathRule.ANSWER_LINE),
        (hashes, MathRule.HASHES),
    ):
        if marked:
            # A marked line without an answer ends the search: no further rule applies.
            stated = stated_answer(marked[1], tail[: marked[0]])
            return Extraction(stated, rule) if stated else None
    if framed := last_boxes(tail, "\\fbox"):
        return Extraction(framed[-1], MathRule.ANSWER_LINE)
    if number := only_number(tail.split("\n")):
        return Extraction(number, MathRule.LAST_NUMBER)
    return Extraction("", MathRule.BOXED) if boxes else None


def _correction(after: str, boxed: str) -> str | None:
    """Another number that the text states after its box, where it takes the box back."""
    if "nswer" not in after or not _RETRACTED.search(after):
        return None
    after = plain(after[-MAX_TAIL_CHARS:])
    marked = _answer_line(after, 0)
    stated = stated_answer(marked[1], after[: marked[0]]) if marked else None
    values = [exact_value(normalize(text)) for text in (stated or "", boxed)]
    return None if None in values or values[0] == values[1] else stated


_Marked = tuple[int, str]
"""The place of a marker, and the line behind it."""


def _after_hashes(tail: str) -> _Marked | None:
    start = tail.rfind(_HASHES)
    line, _, rest = tail[max(start, 0) :].lstrip("#").strip().partition("\n")
    # "####" also opens a heading: prose counts as an answer only on the last line.
    found = start >= 0 and line and not (rest.strip() and is_prose(line))
    return (start, line) if found else None


def _answer_line(tail: str, start: int) -> _Marked | None:
    last = last_match(_ANSWER.finditer(tail, start))
    if "<answer>" in tail:
        last = last_match(_ANSWER_TAG.finditer(tail, last.end() if last else start)) or last
    if last is None:
        return None
    display = _DISPLAY.match(tail, last.end())
    line = display[1] if display else tail[last.end() :].partition("\n")[0]
    line = line.partition("</answer>")[0].strip()
    # The end of a JSON object is no part of its value.
    if line.count("}") > line.count("{"):
        line = line.rstrip(" }],`").strip("\"' ")
    return last.start(), line
