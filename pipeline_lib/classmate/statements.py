r"""The step with which a chain states the solution outside any answer format, by kind.

Mathematics: the gold, which the question lacks, is in the text: a number in the notations of `verification.math`,
also in words, with a multiplier ("72 thousand") or in per cent, or another gold by its characters. Countdown: steps
anywhere in the text, in any order and with either side first, or an expression solve the problem. A solution in other
words ("five times four") is not found.
"""

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.records import Problem
from pipeline_lib.verification.answer_text import plain
from pipeline_lib.verification.countdown.arithmetic import (
    STEP,
    find_expressions,
    find_steps,
    has_operator,
    strip_latex,
)
from pipeline_lib.verification.countdown.judge import judge
from pipeline_lib.verification.math.exact import number_words
from pipeline_lib.verification.math.exact.normal_form import exact_value, leading_number, normalize

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
_RESULT_SIGN = re.compile(r"==+|[-=]>|→|\b(?:is|equals|gives|makes)\b")
_TIMES = re.compile(r"(?<=[\d)]) ?[xX] ?(?=[\d(])")
_RESULT_FIRST = re.compile(
    r"(?<![\d.])(\d{1,12}) ?= ?(\d{1,12} ?[-+*/] ?\d{1,12})(?![\d.]*\d| ?[-+*/])"
)
_MAX_STATES = 10_000
_OPERATIONS: Mapping[str, Callable[[int, int], int | Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": Fraction,
}


def first_statement(problem: Problem, steps: Sequence[str]) -> int | None:
    """Index of the first of the ``steps`` of a chain with which it states the solution; None if none does."""
    rule = _RULES.get(type(problem.gold))
    return None if rule is None else rule(problem, steps)


def _first_answer(problem: Problem, steps: Sequence[str]) -> int | None:
    assert isinstance(problem.gold, MathGold)
    states = _rule_of_answer(problem.gold.answer)
    if states(problem.question):
        return None
    # Each step by itself, and from the beginning: a number in words may continue in the next step.
    views = zip(steps, accumulate(steps), strict=True)
    return next((number for number, texts in enumerate(views) if any(map(states, texts))), None)


def _rule_of_answer(answer: str) -> Callable[[str], bool]:
    """True of a text with ``answer``, if this is a number with any sign."""
    value = _value(normalize(answer))
    if value is not None:
        values = {abs(value), abs(value) / 100} if "%" in answer else {abs(value)}
        return lambda text: not values.isdisjoint(_numbers(text))
    if re.fullmatch(r"[^\W\d_]+(?:[\s-][^\W\d_]+)*", answer.strip()):
        words = re.compile(rf"\b{re.escape(_spaced(answer))}\b")
        return lambda text: words.search(_spaced(text)) is not None
    compact = _compact(answer)
    before, after = (r"(?<!\d)" * compact[:1].isdigit(), r"(?!\d)" * compact[-1:].isdigit())
    formula = re.compile(f"{before}{re.escape(compact)}{after}")
    return lambda text: formula.search(_compact(text)) is not None


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
        found | {*_worded(text)} | {value for line in text.split("\n") for value in _longer(line)}
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


def _first_solution(problem: Problem, steps: Sequence[str]) -> int | None:
    gold = problem.gold
    assert isinstance(gold, CountdownGold)
    texts = [*accumulate(steps)]
    # What solves the problem stays in the text.
    place = bisect_left(texts, 1, key=lambda text: int(_solves(gold, text)))
    return place if place < len(texts) else None


def _solves(gold: CountdownGold, text: str) -> bool:
    text = _RESULT_SIGN.sub("=", _TIMES.sub("*", strip_latex(plain(text))))
    # The steps of a list are separate.
    text = re.sub("[,;]", " ; ", text)
    text = (
        f"{text}\n{' ; '.join(f'{found[2]}={found[1]}' for found in _RESULT_FIRST.finditer(text))}"
    )
    expressions = {
        found
        for line in text.split("\n")
        # Without long gaps, at which the judge would cut an expression.
        for found in find_expressions(" ".join(line.split()), most_chars=None)
    }
    return _leads_to_target(gold, {*find_steps(text)}) or any(
        judge(gold, f"<answer>{found}</answer>").lenient
        for found in expressions
        if has_operator(found)
    )


def _leads_to_target(gold: CountdownGold, steps: set[str]) -> bool:
    """True if some of the steps, in some order, take the numbers to the target."""
    start = tuple(sorted(gold.numbers))
    seen, reached = {start}, [start]
    while reached and len(seen) < _MAX_STATES:
        values = reached.pop()
        for step in steps:
            after = _after(values, step)
            if after is not None and after not in seen:
                seen.add(after)
                reached.append(after)
    return (gold.target,) in seen


def _after(values: tuple[int, ...], step: str) -> tuple[int, ...] | None:
    """The numbers after a right step with two of them; else None."""
    found = STEP.fullmatch(step)
    assert found is not None
    left, right, written = (int(found[group]) for group in (1, 3, 4))
    rest = [*values]
    for operand in (left, right):
        if operand not in rest:
            return None
        rest.remove(operand)
    if (found[2] == "/" and not right) or _OPERATIONS[found[2]](left, right) != written:
        return None
    return tuple(sorted((*rest, written)))


_RULES: Mapping[type[Gold], Callable[[Problem, Sequence[str]], int | None]] = {
    CountdownGold: _first_solution,
    MathGold: _first_answer,
}
