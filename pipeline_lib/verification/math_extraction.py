r"""Where the final answer of a mathematical text stands, and by which rule it was found.

Rules, best first: the last ``\boxed{...}``; a ``#### x`` line; an "answer is" line; the last number.
Prompts ask for the box, so only that rule is strict. What the answer is worth is not decided here.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.verification.answer_text import after_thought, last_boxes, plain

MAX_TAIL_CHARS = 8_000
"""Rules other than the box read only this much of the end of a text."""

_HASHES = "####"
_ANSWER = re.compile(
    r"(?:\b(?i:answer)\b\W{0,4}(?:\bis\b|:|=)|^\s{0,8}A:)[\s:*]{0,8}(\S[^\n]*)", re.MULTILINE
)
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)")
_NUMBER = re.compile(
    r"(?<![\w.])(?:[-+](?=[\d.$\\]))?(?:\\?[$€£¥])?[-+]?"
    r"(?:\\[dt]?frac\{-?\d{1,40}\}\{-?\d{1,40}\}"
    r"|(?:\d{1,3}(?:(?:,|\{,\})\d{3})+(?!\d)|\d+|(?=\.\d))(?:\.\d+)?(?:/\d+(?:\.\d+)?)?)"
    r"\s?(?:\\?%)?"
)
# "60 days for 3 books that are 400 pages each" states 60.
_AFTER_VERB = re.compile(
    r"(?:=|(?<!that )(?<!which )\b(?:is|are|was|were|equals|have|has|total of))[\s*:$\\(]{0,6}$"
)
_LOOK_BACK_CHARS = 24
_FORMULA = re.compile(r"(?<!\\)\$[^$]+(?<!\\)\$|\\\(.+?\\\)")
_COMMAND = re.compile(r"\\(?:text|mbox|mathrm|textbf)\s?\{[^{}]*\}|\\[A-Za-z]+|\\.")
_WORD = re.compile(r"[^\W\d_]{2,}")
_ALTERNATIVE = re.compile(r"\b(?:or|either)\b|\bis not\b", re.IGNORECASE)


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
        return Extraction(answer=", ".join(boxes), rule=MathRule.BOXED)
    tail = plain(visible[-MAX_TAIL_CHARS:]).rstrip()
    for rule, found in (
        (MathRule.HASHES, _after_hashes(tail)),
        (MathRule.ANSWER_LINE, _answer_line(tail)),
        (MathRule.LAST_NUMBER, _last_number(tail)),
    ):
        if found:
            return Extraction(answer=found, rule=rule)
    return None


def _after_hashes(tail: str) -> str | None:
    start = tail.rfind(_HASHES)
    if start < 0:
        return None
    line, _, rest = tail[start:].lstrip("#").strip().partition("\n")
    # The same signs open a heading: words count as an answer only on the last line.
    if not line or (rest.strip() and _is_prose(line)):
        return None
    return _stated(line)


def _answer_line(tail: str) -> str | None:
    lines = _ANSWER.findall(tail)
    return _stated(lines[-1]) if lines else None


def _last_number(tail: str) -> str | None:
    for line in reversed(tail.split("\n")):
        if numbers := list(_NUMBER.finditer(line)):
            return _after_verb(line, numbers) or numbers[-1][0].strip()
    return None


def _stated(line: str) -> str | None:
    """The answer in what follows a marker: an expression as it is, or what a sentence states."""
    line = line.replace("**", "").strip()
    if not _is_prose(line):
        return line.rstrip(".").strip() or None
    end = _SENTENCE_END.search(line)
    # "Mr. Benson paid $476." ends later.
    if end and _candidates(line[: end.start()]):
        line = line[: end.start()]
    candidates = _candidates(line)
    if len(candidates) > 1 and _ALTERNATIVE.search(line):
        return line
    if not candidates:
        return line
    return _after_verb(line, candidates) or candidates[0][0].strip()


def _candidates(line: str) -> list[re.Match[str]]:
    """The formulas of a sentence, or its numbers if it has no formula."""
    # Between two amounts in dollars there are words.
    formulas = [found for found in _FORMULA.finditer(line) if not _is_prose(found[0])]
    return formulas or list(_NUMBER.finditer(line))


def _is_prose(line: str) -> bool:
    return _WORD.search(_COMMAND.sub(" ", line)) is not None


def _after_verb(line: str, numbers: list[re.Match[str]]) -> str | None:
    """The last number that follows "is", "=" or the like: "It takes 60 days, which is 2 months"."""
    for number in reversed(numbers):
        if _AFTER_VERB.search(line[max(0, number.start() - _LOOK_BACK_CHARS) : number.start()]):
            return number[0].strip()
    return None
