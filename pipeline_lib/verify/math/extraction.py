r"""Extraction of the final answer of a mathematical text, with the rule that found it.

Rules, best first: the last ``\boxed{...}``; the last of ``#### x``, "answer is", ``<answer>`` and
``\fbox``; the last number. Prompts ask for the box, so only that rule is strict, and only outside
reasoning that was never ended. Tool calls and what follows the end of the turn are not read.

A sentence has an answer if it states exactly one number, neither denied, compared nor doubted; of
several, the result of the last equation counts. All patterns take linear time, because they read
model output in the parent process.
"""

import collections
import itertools
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from pipeline_lib.verify.answer_text import final_turn, last_boxes, plain
from pipeline_lib.verify.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verify.math.exact.quantity import multiplier

MAX_TAIL_CHARS = 8_000
"""Rules other than the box read only the last characters of a text."""

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
_NUMBER = re.compile(
    r"(?<![\w.^_])(?<!\^\{)(?:[-+](?=[\d.$\\]))?(?:\\?[$€£¥])?[-+]?"
    r"(?:\\[dt]?frac\{-?\d{1,40}\}\{-?\d{1,40}\}"
    r"|(?:\d{1,3}(?:(?:,|\{,\})\d{3}){1,12}(?![\d,])|\d+|(?=\.\d))(?:\.\d+)?(?:/\d+(?:\.\d+)?)?)"
    r"\s?(?:\\?%)?"
)
# The second dollar sign of "$38 - $17" opens an amount.
_FORMULA = re.compile(r"(?<!\\)\$[^$\n]{1,400}(?<!\\)\$(?!\.?\d)|\\\([^\n]{1,400}?\\\)")
_COMMAND = re.compile(r"\\(?:text|mbox|mathrm|textbf)\s?\{[^{}]*\}|\\[A-Za-z]+|\\.")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE_END = re.compile(r"[.!](?:\s|$)")
_EQUATION = re.compile(r"(?:=|\\approx|\bequals\b)[\s$\\(*<]{0,6}(?=[-+\d.$€£¥\\])")
_LOOK_BACK_CHARS = 40
_LOOK_AHEAD_CHARS = 24
_EQUATION_CHARS = 60

_CONTRAST = re.compile(r",? ?(?:and|but)? ?\bnot \\?\$?-?[\d.,]{1,20}[^,;.]{0,40}", re.IGNORECASE)
_DOUBT = (
    "unknown|wrong|incorrect|false|invalid|impossible|doubt|unsure|maybe|perhaps|possibly|probably|guess|might"
    "|may be|either|mistaken?|rule out"
)
_DENIED = re.compile(
    rf"\b(?:not|never|cannot|neither|nor|no longer|{_DOUBT}|could be|could also|candidates?|any of|an error"
    r"|anything but|something like|somewhere|one of)\b|n't\b",
    re.IGNORECASE,
)
"""Anywhere in the sentence: it then states no number."""
_SUBJECT = re.compile(
    r"\W{0,4}(?:(?:therefore|thus|so|hence|consequently|finally|in total|overall|then),? ){0,2}the ",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:is|are|was|were|equals)[:\s$\\(*]{0,4}$", re.IGNORECASE)
_UNSURE = re.compile(
    rf"\b(?:answer|result|solution|value|it|this) (?:\w+ )?(?:is|was)(?:n't| not| never)\b|\b(?:{_DOUBT}|error"
    r"|cannot be|can't be|not true|deny|denies)\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"\b(?:that|who|which)(?: [a-z']{1,12}){0,2}? (?:not|[a-z]{1,8}n't) [a-z]{1,20}"
    r"|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )(?<!\bbe )\bnot [a-z]{2,20}(?:ed|en)\b",
    re.IGNORECASE,
)
"""A negation about the counted thing ("flowers that are not roses"), not about the count."""
_BEFORE = re.compile(
    r"(?:\b(?:than|at most|at least|up to|between|over|under|above|below|about|around|approximately|roughly|"
    r"nearly|almost|near|hardly|barely|scarcely|divisible by|sqrt|half|root|twice|double|triple|negative|minus|plus"
    r"|(?:half|third|quarter|fraction|root|square|cube|opposite|inverse|reciprocal|power|multiple|divisor|factor) of"
    r"|sin|cos|tan|log|ln|to the|except|unless|without|beyond|exceeds?|modulo|mod|times|divided by|multiplied by)"
    r"|[-+*/^<>~])[\s$\\(*]{0,4}$",
    re.IGNORECASE,
)
"""Directly before the number: it is a bound, an operand, or has another sign."""
_AFTER = re.compile(
    r"[\s*$\\)]{0,4}(?:times\b(?=[\s$\\(]{1,4}(?:[-\d$\\(]|(?:the|as|that|of|more|larger)\b))"
    r"|(?:minus|plus|squared|cubed|factorial|halves|thirds|quarters|fourths|fifths|tenths|choose|divided|multiplied"
    r"|root|mod|modulo|percent|unless|if|short of|too (?:many|few|much))\b"
    r"|and then some|over \$?[\d.]{1,20}(?![\d.]| ?[A-Za-z%])|or (?:so|more|less|fewer|\W{0,3}\d)"
    r"|(?:more|less|fewer) than\W{1,4}(?:\d|[a-z]\b)|to the (?:power\b|[a-z]{0,12}(?:th|rd|nd)\b|[-\d$])"
    r"|is (?:not|wrong|incorrect|false|excluded)\b|[-+*^=<>!?]|/(?![A-Za-z]{3})|\.\.)",
    re.IGNORECASE,
)
"""Directly after the number: it is an operand, a bound, or retracted."""


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
        values = {exact_value(normalize(box)) for box in boxes} if len(boxes) > 1 else {None}
        boxed = boxes[-1] if len(values) == 1 and None not in values else ", ".join(boxes)
        corrected = _correction(visible[visible.rfind("\\boxed") :], boxed)
        if corrected is not None:
            return Extraction(corrected, MathRule.ANSWER_LINE)
        return Extraction(boxed, MathRule.REASONING if unfinished else MathRule.BOXED)
    tail = plain(visible[-MAX_TAIL_CHARS:])
    tail = (_EMPTY_BOX.sub("", tail) if boxes else tail).rstrip()
    hashes = _after_hashes(tail)
    named = _answer_line(tail, hashes[0] if hashes else 0)
    if marked := named or hashes:
        # A marked line without an answer ends the search: no further rule applies.
        stated = _stated_answer(marked[1], tail[: marked[0]])
        rule = MathRule.ANSWER_LINE if named else MathRule.HASHES
        return Extraction(stated, rule) if stated else None
    if framed := last_boxes(tail, "\\fbox"):
        return Extraction(framed[-1], MathRule.ANSWER_LINE)
    if number := _only_number(tail.split("\n")):
        return Extraction(number, MathRule.LAST_NUMBER)
    return Extraction("", MathRule.BOXED) if boxes else None


def _correction(after: str, boxed: str) -> str | None:
    """Another number that the text states after its box, where it takes the box back."""
    if "nswer" not in after or not _RETRACTED.search(after):
        return None
    after = plain(after[-MAX_TAIL_CHARS:])
    marked = _answer_line(after, 0)
    stated = _stated_answer(marked[1], after[: marked[0]]) if marked else None
    values = [exact_value(normalize(text)) for text in (stated or "", boxed)]
    return None if None in values or values[0] == values[1] else stated


def _after_hashes(tail: str) -> tuple[int, str] | None:
    """The place of the last "####", and the line behind it."""
    start = tail.rfind("####")
    line, _, rest = tail[max(start, 0) :].lstrip("#").strip().partition("\n")
    # "####" also opens a heading: prose counts as an answer only on the last line.
    found = start >= 0 and line and not (rest.strip() and _is_prose(line))
    return (start, line) if found else None


def _answer_line(tail: str, start: int) -> tuple[int, str] | None:
    """The place of the last "answer is", and the line behind it."""
    last = _last(_ANSWER, tail, start)
    if "<answer>" in tail:
        last = _last(_ANSWER_TAG, tail, last.end() if last else start) or last
    if last is None:
        return None
    display = _DISPLAY.match(tail, last.end())
    line = display[1] if display else tail[last.end() :].partition("\n")[0]
    line = line.partition("</answer>")[0].strip()
    # The end of a JSON object is no part of its value.
    if line.count("}") > line.count("{"):
        line = line.rstrip(" }],`").strip("\"' ")
    return last.start(), line


def _is_prose(line: str) -> bool:
    """True if a line holds words outside commands."""
    return _WORD.search(_COMMAND.sub(" ", line)) is not None


def _stated_answer(line: str, before: str) -> str | None:
    """The answer that a line states; None if it states none or several.

    An expression is the answer as it is; the last equation ``before`` may decide between numbers.
    """
    line = line.replace("**", "").strip()
    if line.endswith("?"):
        return None
    if not _is_prose(line):
        return line.rstrip(".").strip() or None
    sentence = _CONTRAST.sub("", line) if " not " in line else line
    candidates = _candidates(sentence)
    end = _SENTENCE_END.search(sentence)
    # "Mr. Benson paid $476." has its end after the number.
    if end and (first := _candidates(sentence[: end.start()])):
        sentence, candidates = sentence[: end.start()], first
    if _is_definite(sentence, candidates):
        return _with_multiplier(sentence, candidates[-1])
    # What is not so beside an equation is said of the things.
    doubt = _UNSURE if _last(_EQUATION, sentence) else _DENIED
    denied = doubt.search(sentence) and doubt.search(_RELATIVE.sub(" ", sentence))
    if denied or not candidates:
        return None if denied else line
    if len({_canonical(candidate[0]) for candidate in candidates}) > 1:
        given, start = _last_result(before, sentence)
        candidates = [c for c in candidates if _canonical(c[0]) == given and c.end() > start]
        # The result of an equation of the sentence counts, not the same number elsewhere.
        candidates = candidates[:1] if start >= 0 else candidates
    sound = [candidate for candidate in candidates if not _is_misread(sentence, candidate)]
    if not sound or len(sound) < len(candidates):
        return None
    return _with_multiplier(sentence, sound[-1])


def _is_definite(sentence: str, candidates: list[re.Match[str]]) -> bool:
    """True for "the number of ... is X", whatever its subject says: other numbers, or what is not."""
    if not candidates or not _SUBJECT.match(sentence):
        return False
    last = candidates[-1]
    starts = [candidate.start() for candidate in candidates]
    verbs = [s for s in starts if _VERB.search(sentence, max(0, s - _LOOK_BACK_CHARS), s)]
    ends = not _is_prose(sentence[last.end() :]) and not _is_misread(sentence, last)
    return verbs == [last.start()] and ends and not _UNSURE.search(sentence)


def _candidates(line: str) -> list[re.Match[str]]:
    """The formulas of a sentence, or its numbers if it has no formula."""
    # Text between two dollar amounts looks like a formula; it contains words.
    marked = _FORMULA.finditer(line) if "$" in line or "\\(" in line else ()
    return [found for found in marked if not _is_prose(found[0])] or [*_NUMBER.finditer(line)]


def _is_misread(sentence: str, candidate: re.Match[str]) -> bool:
    ahead = sentence[candidate.end() : candidate.end() + _LOOK_AHEAD_CHARS]
    behind = sentence[max(0, candidate.start() - _LOOK_BACK_CHARS) : candidate.start()]
    return bool(_BEFORE.search(behind) or _AFTER.match(ahead))


def _with_multiplier(sentence: str, candidate: re.Match[str]) -> str:
    """The number, with its "thousand" in "5 thousand"."""
    words = sentence[candidate.end() : candidate.end() + _LOOK_AHEAD_CHARS].split()
    word = words[0].strip(".,") if words else ""
    return f"{candidate[0].strip()} {word if multiplier(word) else ''}".strip()


def _last_result(before: str, sentence: str) -> tuple[str | None, int]:
    """The result of the last equation in the sentence, and its place there, or -1 and one before it."""
    for text in (sentence, before):
        last = _last(_EQUATION, text)
        if last is not None:
            found = _NUMBER.match(text[last.end() : last.end() + _EQUATION_CHARS])
            return _canonical(found[0]) if found else None, last.end() if text is sentence else -1
    return None, -1


def _canonical(text: str) -> str:
    """A canonical spelling of a number, for comparison within a text."""
    return re.sub(r"[\s$\\€£¥{}()*%]|,(?=\d{3})|\.0+\s*$", "", text).removeprefix("+")


def _only_number(lines: Sequence[str]) -> str | None:
    """The answer in the last line with a number; None if it states none or several."""
    place = next((p for p in range(len(lines) - 1, -1, -1) if _NUMBER.search(lines[p])), None)
    if place is None:
        return None
    line = lines[place].replace("**", "").strip()
    if _is_prose(line):
        return _last_stated(line, "\n".join(lines[:place]))
    if "=" not in line and "\\approx" not in line:
        return _stated_answer(line, "") if len(_candidates(line)) == 1 else None
    last = _last(_EQUATION, line)
    found = _NUMBER.match(line[last.end() :]) if last else None
    # Several equations side by side state no single answer.
    if last is None or found is None or re.search(r"[,;] ", line):
        return None
    return None if _AFTER.match(line[last.end() + found.end() :]) else found[0].strip()


def _last_stated(line: str, before: str) -> str | None:
    """The number stated by the last sentence with a number, unless a later one retracts it."""
    ends = [0, *(found.end() for found in _SENTENCE_END.finditer(line)), len(line)]
    starts = [start for start, end in itertools.pairwise(ends) if _NUMBER.search(line[start:end])]
    if len(starts) < 2:
        return _stated_answer(line, before)
    start = starts[-1]
    end = min(end for end in ends if end > start)
    if _DENIED.search(line[end:]):
        return None
    return _stated_answer(line[start:end], f"{before}\n{line[:start]}")


def _last(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    return next(iter(collections.deque(pattern.finditer(text, start), maxlen=1)), None)
