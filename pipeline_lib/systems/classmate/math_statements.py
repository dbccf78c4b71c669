r"""The step with which a chain states the gold of a problem of mathematics, which the question lacks.

A number counts in the notations of `verification.math`, also in words, with a multiplier ("72 thousand") or in per
cent; a word or the letter of a choice; a formula by its characters. Other spellings of a formula, which have the
numbers of the gold, and quantities in other units are `candidates` for the verifier. An answer in other words ("five times four") is not found.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.records import Problem
from pipeline_lib.verify.answer_text import plain
from pipeline_lib.verify.math.exact import number_words
from pipeline_lib.verify.math.exact.normal_form import exact_value, leading_number, normalize

_FRACTION = r"\\[dt]?frac\s?\{\d{1,40}\}\s?\{\d{1,40}\}"
_POWER = r"(?:[eE][-+]?\d{1,3}|\s?(?:\\times|\\cdot|\*)\s?10\s?\^\s?\{?[-+]?\d{1,3}\}?)"
# A comma only between thousands: "9,10" are two numbers.
_DECIMAL = r"(?:(?:[1-9]\d{0,2}(?:,\d{3}){1,12}(?![\d]|,\d{3})|\d{1,60})(?:\.\d{1,60})?|\.\d{1,60})"
_NUMBER = re.compile(rf"{_FRACTION}|{_DECIMAL}(?:{_POWER})?(?:/\d{{1,40}})?")
_PART = re.compile(r"[\d,.]*\d")
_INVISIBLE = re.compile(r"[{}~]|\\[,;:! ]")
_WORDS = re.compile(r"[A-Za-z]+(?:[ \n-]+[A-Za-z]+)*")
_NUMBER_START = re.compile(r"(?<![\d.,])(?:\d|\.\d|\\frac)")
_LONGEST_NUMBER = 80
_PER_CENT = re.compile(r" ?(?:\\?%|per ?cent\b)")
_NEXT_WORD = re.compile(r" ?([A-Za-z]+)")
_NUMBER_WORDS = 8
"""Words of the longest number in words that is read."""
_LONGEST_WORD = 12
_MONEY = re.compile(r"^\\?\$ ?")
_UNIT = re.compile(r" ?(?:\\?%|\^ ?\\circ|\\text\{[^{}]*\}|(?<= )[A-Za-z]{2,20})?")
_BRACKETS = re.compile(r"\\(?:left|right)(?![a-z])|[\s\\{}()\[\]$]")
_SYMBOLS = str.maketrans({"√": "\\sqrt ", "π": "\\pi "})
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf|textit)\{([^{}]*)\}")
_CHOICE = re.compile(r"\(([A-Z])\)")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z ]*")
# Signs, numbers, single letters, letters behind a number and names of functions; words of a sentence end it.
_FORMULA = re.compile(
    r"(?:[-+*/^_=<>≤≥≠±∞∪∩|(){}\[\],;:.!\s\d]|(?<=\d)[A-Za-z]{1,3}(?![A-Za-z])"  # noqa: RUF001 - sets
    r"|\\[A-Za-z]+|(?<![A-Za-z\\])(?:sqrt|pi|infinity|inf|sin|cos|tan|log|ln|and|or|[A-Za-z])(?![A-Za-z]))++"
)
_CONNECTIVE_ENDS = re.compile(r"^(?:[\s.,;:=]|(?:and|or)\b)+|(?:[\s.,;:=]|\b(?:and|or))+$")
_LONGEST_FORMULA = 200
_WITH_UNIT = re.compile(r"\d[\d.,]{0,20}(?: [A-Za-z]{1,20}|[A-Za-z]{2,20})\b")
_RATIO = re.compile(r"(?<![\d:.])(\d{1,9}) ?: ?([1-9]\d{0,8})(?![\d:.]*\d)")


def first_answer(problem: Problem, steps: Sequence[str]) -> int | None:
    """Index of the first of the ``steps`` that states the gold; None if none does."""
    assert isinstance(problem.gold, MathGold)
    rules = [rule for rule in _rules(problem.gold.answer) if not rule(problem.question)]
    # Each step by itself, and from the beginning: a number in words may continue in the next step.
    views = zip(steps, accumulate(steps), strict=True)
    stating = (
        number
        for number, texts in enumerate(views)
        if any(rule(text) for rule in rules for text in texts)
    )
    return next(stating, None)


def _rules(answer: str) -> Iterator[Callable[[str], bool]]:
    """True of a text with ``answer``. A question may have its value alone, as one for a mixed number has."""
    yield _rule_of_answer(answer)
    compact = _compact(answer)
    if _value(normalize(answer)) is not None and not _PART.fullmatch(compact):
        yield lambda text: _is_in(compact, _compact(text))


def _rule_of_answer(answer: str) -> Callable[[str], bool]:
    """By value if the answer is a number, of any sign; as a word or a choice; else by its characters."""
    value = _value(normalize(answer))
    if value is not None:
        values = {abs(value), abs(value) / 100} if "%" in answer else {abs(value)}
        return lambda text: not values.isdisjoint(_numbers(text))
    bare = _TEXT_COMMAND.sub(r"\1", answer).strip()
    if choice := _CHOICE.fullmatch(bare):
        letter = re.compile(rf"\({choice[1]}\)|\b{choice[1]}\)|\b(?:option|choice) {choice[1]}\b")
        return lambda text: letter.search(_bare(text)) is not None
    if re.fullmatch(r"[^\W\d_]+(?:[\s-][^\W\d_]+)*", bare):
        words = re.compile(rf"\b{re.escape(_spaced(bare))}\b")
        return lambda text: words.search(_spaced(_bare(text))) is not None
    compact = _compact(answer)
    return lambda text: _is_in(compact, _compact(text))


def _is_in(compact: str, text: str) -> bool:
    before, after = (r"(?<!\d)" * compact[:1].isdigit(), r"(?!\d)" * compact[-1:].isdigit())
    return re.search(f"{before}{re.escape(compact)}{after}", text) is not None


def _bare(text: str) -> str:
    """Without the commands and braces of words in LaTeX."""
    return _TEXT_COMMAND.sub(r"\1", plain(text))


def _spaced(text: str) -> str:
    return " ".join(plain(text).lower().split())


def _compact(text: str) -> str:
    return _BRACKETS.sub("", normalize(text.translate(_SYMBOLS))).lower()


def _value(answer: str) -> Fraction | None:
    """The value of a number, also of one with a sign of money or a unit."""
    found = leading_number(_MONEY.sub("", answer))
    return found[0] if found and _UNIT.fullmatch(found[1]) else None


def _numbers(text: str) -> set[Fraction]:
    """The numbers of a text without their signs; of a quotient also its parts."""
    text = plain(text)
    # Braces and thin spaces can be inside a number; around a fraction they separate two.
    joined = _INVISIBLE.sub("", re.sub(_FRACTION, " ", text))
    spellings = {found[0] for view in (text, joined) for found in _NUMBER.finditer(view)}
    parts = {part for spelling in spellings for part in _PART.findall(spelling)}
    values = (exact_value(normalize(spelling)) for spelling in spellings | parts)
    found = {value for value in values if value is not None}
    return (
        found
        | {*_worded(text)}
        | {Fraction(int(one[1]), int(one[2])) for one in _RATIO.finditer(text)}
        | {value for line in text.split("\n") for value in _longer(line)}
    )


def _longer(line: str) -> Iterator[Fraction]:
    """Mixed, spaced and repeating numbers, those before a multiplier, and those in per cent."""
    line = normalize(line)
    for start in _NUMBER_START.finditer(line):
        read = leading_number(line[start.start() : start.start() + _LONGEST_NUMBER])
        if read is None:
            continue
        value, rest = read
        yield value
        if _PER_CENT.match(rest):
            yield value / 100
        while (word := _NEXT_WORD.match(rest)) and (factor := number_words.multiplier(word[1])):
            value, rest = value * factor, rest[word.end() :]
            yield value


def _worded(text: str) -> Iterator[Fraction]:
    """The numbers in words."""
    for run in _WORDS.finditer(text):
        # A word as long as this is none of a number, and a long phrase is not read.
        words = [
            word if len(word) <= _LONGEST_WORD else "x" for word in re.split("[ \n-]+", run[0])
        ]
        while words:
            found = number_words.leading_number(" ".join(words[:_NUMBER_WORDS]))
            read = 1
            if found is not None:
                yield abs(found[0])
                read = len(words[:_NUMBER_WORDS]) - len(found[1].split())
            words = words[read:]


def candidates(problem: Problem, step: str) -> Iterator[str]:
    """The formulas of a step that may be the gold in another spelling, as in ``x > 2`` for an interval."""
    assert isinstance(problem.gold, MathGold)
    if _WITH_UNIT.fullmatch(_bare(problem.gold.answer)):
        yield from (found[0] for found in _WITH_UNIT.finditer(_bare(step)))
        return
    if _value(normalize(problem.gold.answer)) is not None:
        return
    answer = _compact(problem.gold.answer)
    wanted = {*_DIGITS.findall(answer)}
    if _WORD.fullmatch(answer) or _is_in(answer, _compact(problem.question)):
        return
    runs = [run[0].strip() for run in _FORMULA.finditer(plain(step).translate(_SYMBOLS))]
    short = [run for run in runs if len(run) <= _LONGEST_FORMULA]
    for text in dict.fromkeys(text for run in short for text in (run, run.rpartition("=")[2])):
        span = _CONNECTIVE_ENDS.sub("", text)
        if span[:1] == "{" and span[-1:] == "}":
            span = f"\\{span[:-1]}\\}}"
        if not _WORD.fullmatch(span) and {*_DIGITS.findall(span)} == wanted:
            yield span
