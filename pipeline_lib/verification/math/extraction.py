r"""Extraction of the final answer of a mathematical text, with the rule that found it.

Rules, best first: the last ``\boxed{...}``; a ``#### x`` line; an "answer is" line; the last
number. Prompts ask for the box, so only that rule is strict.
"""

import collections
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.verification.answer_text import last_boxes, plain, strip_reasoning
from pipeline_lib.verification.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verification.math.sentences import is_prose, only_number, stated_answer

MAX_TAIL_CHARS = 8_000
"""Rules other than the box read only the last characters of a text."""

_HASHES = "####"
_ANSWER = re.compile(
    r"(?:\b(?i:answer)\b\W{0,4}(?:\bis\b|:|=)|^\s{0,8}A:)[\s:*]{0,8}(\S[^\n]*)", re.MULTILINE
)


class MathRule(StrEnum):
    """Rule that found the answer."""

    BOXED = "boxed"
    HASHES = "hashes"
    ANSWER_LINE = "answer_line"
    LAST_NUMBER = "last_number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The answer as written, and the rule that found it."""

    answer: str
    rule: MathRule


def extract(text: str) -> Extraction | None:
    """The final answer of ``text``; None if no rule fires. Never raises."""
    visible = strip_reasoning(text)
    boxes = last_boxes(visible)
    if boxes:
        # "\boxed{1} and \boxed{2}" is one answer with two parts.
        return Extraction(answer=", ".join(_without_repeats(boxes)), rule=MathRule.BOXED)
    tail = plain(visible[-MAX_TAIL_CHARS:]).rstrip()
    for rule, find in ((MathRule.HASHES, _after_hashes), (MathRule.ANSWER_LINE, _answer_line)):
        if marked := find(tail):
            # A marked line without an answer ends the search: no further rule applies.
            found = stated_answer(marked.line, marked.before)
            return Extraction(answer=found, rule=rule) if found else None
    number = only_number(tail.split("\n"))
    return Extraction(answer=number, rule=MathRule.LAST_NUMBER) if number else None


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


def _after_hashes(tail: str) -> _Marked | None:
    start = tail.rfind(_HASHES)
    if start < 0:
        return None
    line, _, rest = tail[start:].lstrip("#").strip().partition("\n")
    # "####" also opens a heading: prose counts as an answer only on the last line.
    if not line or (rest.strip() and is_prose(line)):
        return None
    return _Marked(line=line, before=tail[:start])


def _answer_line(tail: str) -> _Marked | None:
    last = _last(_ANSWER.finditer(tail))
    return _Marked(line=last[1], before=tail[: last.start()]) if last else None


def _last(found: Iterable[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(collections.deque(found, maxlen=1)), None)
