r"""Extraction of the final answer of a mathematical text, with the rule that found it.

Rules, best first: the last ``\boxed{...}``; the last of ``#### x``, "answer is", ``<answer>`` and
``\fbox``; the last number. Prompts ask for the box, so only that rule is strict, and only outside
reasoning that was never ended. Tool calls and what follows the end of the turn are not read.
"""

import collections
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.verification.answer_text import (
    final_turn,
    is_unfinished,
    last_boxes,
    plain,
    strip_reasoning,
)
from pipeline_lib.verification.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verification.math.sentences import is_prose, only_number, stated_answer

MAX_TAIL_CHARS = 8_000
"""Rules other than the box read only the last characters of a text."""

_HASHES = "####"
_ANSWER = re.compile(
    r"(?:\b(?i:answer)\b[^\w<>]{0,4}(?:\bis\b|:|=)|^\s{0,8}A:)[\s:*]{0,8}(?!<answer>)(?=\S)|<answer>\s{0,8}(?=[^\s<])",
    re.MULTILINE,
)
_DISPLAY = re.compile(
    r"(\\\[|\$\$)[ \t]{0,8}\n\s{0,8}([^\n]{1,400}?)[ \t]{0,8}\n\s{0,8}(\\\]|\$\$)"
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The answer as written, and the rule that found it."""

    answer: str
    rule: MathRule


def extract(text: str) -> Extraction | None:
    """The final answer of ``text``; None if no rule fires. Never raises."""
    visible = final_turn(strip_reasoning(text))
    boxes = last_boxes(visible)
    tail = _DISPLAY.sub(r"\1\2\3", plain(visible[-MAX_TAIL_CHARS:])).rstrip()
    if any(box.strip() for box in boxes):
        # "\boxed{1} and \boxed{2}" is one answer with two parts.
        boxed = Extraction(
            answer=", ".join(_without_repeats(boxes)),
            rule=MathRule.REASONING if is_unfinished(text) else MathRule.BOXED,
        )
        return _correction(tail.rpartition("\\boxed")[2], boxed) or boxed
    tail = _EMPTY_BOX.sub("", tail)
    marked = [found for find in (_after_hashes, _answer_line) if (found := find(tail))]
    if marked:
        # A marked line without an answer ends the search: no further rule applies.
        last = max(marked, key=lambda found: len(found.before))
        stated = stated_answer(last.line, last.before)
        return Extraction(answer=stated, rule=last.rule) if stated else None
    if framed := last_boxes(tail, "\\fbox"):
        return Extraction(answer=framed[-1], rule=MathRule.ANSWER_LINE)
    number = only_number(tail.split("\n"))
    if number:
        return Extraction(answer=number, rule=MathRule.LAST_NUMBER)
    return Extraction(answer="", rule=MathRule.BOXED) if boxes else None


def _correction(after: str, boxed: Extraction) -> Extraction | None:
    """Another number that the text states after its box, where it takes the box back."""
    line = _answer_line(after) if _RETRACTED.search(after) else None
    stated = stated_answer(line.line, line.before) if line else None
    values = [exact_value(normalize(text)) for text in (stated or "", boxed.answer)]
    if stated is None or None in values or values[0] == values[1]:
        return None
    return Extraction(answer=stated, rule=MathRule.ANSWER_LINE)


def _without_repeats(boxes: list[str]) -> list[str]:
    """The last box if all hold the same number, in any notation; else all."""
    if len(boxes) < 2:
        return boxes
    values = {exact_value(normalize(box)) for box in boxes}
    return boxes[-1:] if len(values) == 1 and None not in values else boxes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marked:
    """A line behind a marker, and all that is before the marker."""

    line: str
    before: str
    rule: MathRule


def _after_hashes(tail: str) -> _Marked | None:
    start = tail.rfind(_HASHES)
    if start < 0:
        return None
    line, _, rest = tail[start:].lstrip("#").strip().partition("\n")
    # "####" also opens a heading: prose counts as an answer only on the last line.
    if not line or (rest.strip() and is_prose(line)):
        return None
    return _Marked(line=line, before=tail[:start], rule=MathRule.HASHES)


def _answer_line(tail: str) -> _Marked | None:
    last = _last(_ANSWER.finditer(tail))
    if last is None:
        return None
    line = tail[last.end() :].partition("\n")[0].partition("</answer>")[0].strip()
    # The end of a JSON object is no part of its value.
    if line.count("}") > line.count("{"):
        line = line.rstrip(" }],`").strip("\"' ")
    return _Marked(line=line, before=tail[: last.start()], rule=MathRule.ANSWER_LINE)


def _last(found: Iterable[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(collections.deque(found, maxlen=1)), None)
