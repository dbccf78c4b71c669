r"""Where the final answer of a mathematical text stands, and by which rule it was found.

Rules, best first: the last ``\boxed{...}``; a ``#### x`` line; an "answer is" line; the last number.
Prompts ask for the box, so only that rule is strict. What the answer is worth is not decided here.
"""

import collections
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.verification.answer_text import after_thought, last_boxes, plain
from pipeline_lib.verification.math.exact.normal_form import exact_value, normalized
from pipeline_lib.verification.math.sentences import is_prose, only_number, stated

MAX_TAIL_CHARS = 8_000
"""Rules other than the box read only this much of the end of a text."""

_HASHES = "####"
_ANSWER = re.compile(
    r"(?:\b(?i:answer)\b\W{0,4}(?:\bis\b|:|=)|^\s{0,8}A:)[\s:*]{0,8}(\S[^\n]*)", re.MULTILINE
)


class MathRule(StrEnum):
    """How the answer was found."""

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
    visible = after_thought(text)
    boxes = last_boxes(visible)
    if boxes:
        # "\boxed{1} and \boxed{2}" is one answer of two parts, not a choice for the judge.
        return Extraction(answer=", ".join(_without_repeats(boxes)), rule=MathRule.BOXED)
    tail = plain(visible[-MAX_TAIL_CHARS:]).rstrip()
    for rule, find in ((MathRule.HASHES, _after_hashes), (MathRule.ANSWER_LINE, _answer_line)):
        if marked := find(tail):
            # A marked line that states nothing is the answer none the less: no other rule looks on.
            found = stated(marked.line, marked.before)
            return Extraction(answer=found, rule=rule) if found else None
    number = only_number(tail.split("\n"))
    return Extraction(answer=number, rule=MathRule.LAST_NUMBER) if number else None


def _without_repeats(boxes: list[str]) -> list[str]:
    """One box of several that hold the same number, however it is written."""
    if len(boxes) < 2:
        return boxes
    values = {exact_value(normalized(box)) for box in boxes}
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
    # The same signs open a heading: words count as an answer only on the last line.
    if not line or (rest.strip() and is_prose(line)):
        return None
    return _Marked(line=line, before=tail[:start])


def _answer_line(tail: str) -> _Marked | None:
    last = _last(_ANSWER.finditer(tail))
    return _Marked(line=last[1], before=tail[: last.start()]) if last else None


def _last(found: Iterable[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(collections.deque(found, maxlen=1)), None)
