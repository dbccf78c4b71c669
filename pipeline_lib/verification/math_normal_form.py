r"""Two written answers compared without SymPy, as far as text and exact arithmetic go.

``compare`` says True or False where that is certain, and None where symbols have to be understood.
Units, currency and delimiters are dropped; ``50\%`` equals both 50 and 0.5, as graders agree.
Arithmetic is exact: 0.3333 is not 1/3, but six right decimals are taken for it.
"""

import re
from fractions import Fraction

from pipeline_lib.verification.answer_text import plain

MIN_ROUNDED_DECIMALS = 6
MAX_EXACT_CHARS = 450
_MAX_POWER_OF_TEN = 400

_DELIMITERS = re.compile(r"^(?:\$\$?|\\\(|\\\[)\s*|\s*(?<!\\)(?:\$\$?|\\\)|\\\])$")
_REPLACED = (
    (re.compile(r",\\!\s*|(?<!\\)\\!|\{,\}|(?<=\d)(?:\\[,;:]|\{\\,\})(?=\d{3}(?!\d))"), ","),
    (re.compile(r"\\left(?![a-z])|\\right(?![a-z])|\\displaystyle|\\boldsymbol|\\limits"), ""),
    (re.compile(r"(?<!\\)\\[,;:> ]|~|\\quad|\\qquad|\s+"), " "),
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\(?:mbox|textbf|textrm|textit|mathrm|mathbf|text) ?\{"), r"\\text{"),
    (re.compile(r"\^ ?(?:\\circ|\{ ?\\circ ?\})|\\degrees?\b|\u00b0"), ""),
    (re.compile(r"\\frac ?(\d) ?(\d)(?!\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac ?(\d) ?\{"), r"\\frac{\1}{"),
    (re.compile(r"(\\frac ?\{[^{}]*\}) ?(\d)(?!\d)"), r"\1{\2}"),
    (re.compile(r" ?\*\* ?"), "^"),
    # "5\text{ or 6}" offers two values; without this the second would pass for a unit.
    (re.compile(r"(?<=.)\\text\{([^{}]*(?<![A-Za-z])\d[^{}]*)\}"), r" \1"),
    (re.compile(r"\\text\{([^{}]*\b(?:or|and|either)\b[^{}]*)\}"), r" \1"),
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_CURRENCY = re.compile(r"\\?[$€£¥]|\\text\{ ?[$€£¥]\}")
_SPACED_THOUSANDS = re.compile(r"\d{1,3}(?: \d{3})+")
# A unit is a word, not a product of variables, a function or a Greek letter.
_UNIT = re.compile(
    r"(?:(?<=[\d}) ]) ?\\text\{[^{}\d]*\}"
    r"|(?<=[\d}]) (?!(?:sin|cos|tan|cot|sec|csc|exp|mod|and|alpha|beta|gamma|delta|theta)\b)"
    r"(?:(?=[A-Za-z]*[aeiou])[A-Za-z]{3,}|cm|mm|km|kg|mg|ml|mL|ft|in|lbs?|oz|mph|hrs?)"
    r"(?:[ .-]{1,2}[A-Za-z]+){0,4})"
    r"(?:\^ ?(?:\{\d\}|\d))?\.?$"
)
_PERCENT = re.compile(r" ?(?:\\?%|\\text\{ ?(?:\\?%|percent) ?\}| percent)$")
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_NUMBER = re.compile(rf"([-+]?) ?({_DECIMAL})")
_FRACTION = re.compile(
    rf"([-+]?) ?(?:(\d+) ?(?:\+ ?)?)?(?:\\frac ?\{{ ?(-?{_DECIMAL}) ?\}} ?\{{ ?({_DECIMAL}) ?\}}"
    rf"|(?<!\d)({_DECIMAL}) ?/ ?({_DECIMAL}))"
)
_SCIENTIFIC = re.compile(
    rf"([-+]?{_DECIMAL}) ?(?:(?:\\times|\\cdot|\*) ?10 ?\^ ?\{{? ?|[eE])([-+]?\d{{1,3}}) ?\}}?"
)
_EQUALITY = re.compile(r"=|\\approx|\\equiv")
_ROUNDING = Fraction(1, 100)
_NAMED = re.compile(r"\\?[A-Za-z]{1,7}(?:_\{?\w\}?)? ?= ?([^=,;]+)")


def normalized(answer: str) -> str:
    """One spelling of what is written: characters, spacing, fraction commands, thousands."""
    text = plain(answer).strip().strip("*").strip()
    if len(text) > 1:
        text = _DELIMITERS.sub("", _DELIMITERS.sub("", text)).rstrip(".")
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    # "(1,234)" is a point.
    if not text.startswith(("(", "[", "{", "\\{")):
        text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    return text.strip()


def exact_value(text: str) -> Fraction | None:
    """The value of a normalized number, fraction, mixed number or power of ten; else None."""
    if len(text) > MAX_EXACT_CHARS:
        return None
    text = _UNIT.sub("", _CURRENCY.sub("", text)).strip()
    if _SPACED_THOUSANDS.fullmatch(text):
        text = text.replace(" ", "")
    if number := _NUMBER.fullmatch(text):
        return _signed(number[1], Fraction(number[2]))
    if fraction := _FRACTION.fullmatch(text):
        return _fraction(fraction)
    if scientific := _SCIENTIFIC.fullmatch(text):
        power = int(scientific[2])
        if abs(power) <= _MAX_POWER_OF_TEN:
            return Fraction(scientific[1]) * Fraction(10) ** power
    return None


def _fraction(match: re.Match[str]) -> Fraction | None:
    sign, whole = match[1], match[2]
    above, below = (match[3], match[4]) if match[3] is not None else (match[5], match[6])
    if Fraction(below) == 0 or (whole and above.startswith("-")):
        return None
    return _signed(sign, Fraction(whole or 0) + Fraction(above) / Fraction(below))


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def compare(gold: str, answer: str) -> bool | None:
    """Whether two normalized answers are the same; None if that takes symbols to tell."""
    if gold == answer or _spelling(gold) == _spelling(answer):
        return True
    gold, gold_percent = _without_percent(gold)
    answer, answer_percent = _without_percent(answer)
    if _contradicts_itself(answer):
        return False
    gold_value, answer_value = _value_of_equation(gold, answer), _value_of_equation(answer, gold)
    if gold_value is None or answer_value is None:
        hopeless = gold_value is not None and not re.search(r"[\d\\]", answer)
        return False if hopeless else None
    candidates = {answer_value}
    if answer_percent and not gold_percent:
        candidates.add(answer_value / 100)
    if gold_percent and not answer_percent:
        candidates.add(answer_value * 100)
    return any(_close(gold_value, candidate) for candidate in candidates)


def _spelling(text: str) -> str:
    """Words without case, dots and spaces ("4:30 p.m." is "4:30 PM"); symbols as they are."""
    bare = re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
    # "1 1/2" is not "11/2": a space between digits stays.
    bare = re.sub(r"(?<!\d) +| +(?!\d)", "", bare)
    if re.search(r"[A-Za-z]{3}|(?i:[ap]\.?m)\b", bare) and "\\" not in bare:
        bare = re.sub(r"(?<=[A-Za-z])\.", "", bare).casefold()
    return bare


def _without_percent(text: str) -> tuple[str, bool]:
    bare = _PERCENT.sub("", text)
    return bare, bare != text


def _contradicts_itself(text: str) -> bool:
    """Whether it equates numbers that no rounding makes equal: "4 = 5" must not pass for 5."""
    written = _EQUALITY.split(text)
    values = [value for part in written if (value := exact_value(part.strip())) is not None]
    if len(values) < 2:
        return False
    return max(values) - min(values) > _ROUNDING * max(map(abs, values))


def _value_of_equation(text: str, other: str) -> Fraction | None:
    """The value of ``text``; in "x = 5" of the right side, if ``other`` is no equation."""
    named = None if "=" in other else _NAMED.fullmatch(text)
    return exact_value(named[1].strip() if named else text)


def _close(left: Fraction, right: Fraction) -> bool:
    return left == right or _rounds_to(left, right) or _rounds_to(right, left)


def _rounds_to(value: Fraction, rounded: Fraction) -> bool:
    """Whether ``rounded`` is a decimal of six or more places for a ``value`` that has no end."""
    if _decimals(value) is not None:
        return False
    places = _decimals(rounded)
    return places is not None and places >= MIN_ROUNDED_DECIMALS and round(value, places) == rounded


def _decimals(value: Fraction) -> int | None:
    """Places after the point; None if there is no last one."""
    denominator, places = value.denominator, 0
    for prime in (2, 5):
        power = 0
        while denominator % prime == 0:
            denominator //= prime
            power += 1
        places = max(places, power)
    return places if denominator == 1 else None
