r"""The number that a sentence states, if it states exactly one; used by the lenient rules.

A number that is denied, compared, doubted, or one of several is not an answer: "not 5", "between 5
and 6", "half of 5", "maybe 5". Of several numbers, the result of the last equation counts. All
patterns take linear time, because they read model output in the parent process.
"""

import collections
import itertools
import re
from collections.abc import Iterable, Sequence

from pipeline_lib.verification.math.exact.number_words import multiplier

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


def is_prose(line: str) -> bool:
    """True if a line holds words outside commands."""
    return _WORD.search(_COMMAND.sub(" ", line)) is not None


def stated_answer(line: str, before: str) -> str | None:
    """The answer that a line states; None if it states none or several.

    Args:
        line: an expression, which is the answer as it is, or a sentence.
        before: the text before the line; its last equation may decide between several numbers.
    """
    line = line.replace("**", "").strip()
    if line.endswith("?"):
        return None
    if not is_prose(line):
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
    doubt = _UNSURE if _last_equation(sentence) else _DENIED
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
    ends = not is_prose(sentence[last.end() :]) and not _is_misread(sentence, last)
    return verbs == [last.start()] and ends and not _UNSURE.search(sentence)


def _candidates(line: str) -> list[re.Match[str]]:
    """The formulas of a sentence, or its numbers if it has no formula."""
    # Text between two dollar amounts looks like a formula; it contains words.
    marked = _FORMULA.finditer(line) if "$" in line or "\\(" in line else ()
    return [found for found in marked if not is_prose(found[0])] or [*_NUMBER.finditer(line)]


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
        last = _last_equation(text)
        if last is not None:
            found = _NUMBER.match(text[last.end() : last.end() + _EQUATION_CHARS])
            return _canonical(found[0]) if found else None, last.end() if text is sentence else -1
    return None, -1


def _canonical(text: str) -> str:
    """A canonical spelling of a number, for comparison within a text."""
    return re.sub(r"[\s$\\€£¥{}()*%]|,(?=\d{3})|\.0+\s*$", "", text).removeprefix("+")


def only_number(lines: Sequence[str]) -> str | None:
    """The answer in the last line with a number; None if it states none or several."""
    place = next((p for p in range(len(lines) - 1, -1, -1) if _NUMBER.search(lines[p])), None)
    if place is None:
        return None
    line = lines[place].replace("**", "").strip()
    if is_prose(line):
        return _last_stated(line, "\n".join(lines[:place]))
    if "=" not in line and "\\approx" not in line:
        return stated_answer(line, "") if len(_candidates(line)) == 1 else None
    last = _last_equation(line)
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
        return stated_answer(line, before)
    start = starts[-1]
    end = min(end for end in ends if end > start)
    if _DENIED.search(line[end:]):
        return None
    return stated_answer(line[start:end], f"{before}\n{line[:start]}")


def _last_equation(text: str) -> re.Match[str] | None:
    return last_match(_EQUATION.finditer(text))


def last_match(found: Iterable[re.Match[str]]) -> re.Match[str] | None:
    """The last of the matches, or None."""
    return next(iter(collections.deque(found, maxlen=1)), None)
