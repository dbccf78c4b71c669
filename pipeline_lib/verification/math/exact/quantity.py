r"""Numbers with their context: currency, multipliers, percent, units, times of day.

A quantity is parsed only if every word is recognized. The policy on dropped units and percent signs
is in docs/verification-policy.md. All functions take linear time.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from pipeline_lib.verification.math.exact.normal_form import TEXT, exact_value, leading_number
from pipeline_lib.verification.math.exact.number_words import leading_number as leading_words
from pipeline_lib.verification.math.exact.number_words import multiplier
from pipeline_lib.verification.math.exact.units import CURRENCY, Unit, is_letter, parse_unit, ratio

MAX_QUANTITY_CHARS = 600


class Percent(StrEnum):
    """Notation of a percentage."""

    SIGN = "sign"
    WORD = "word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An exact number with its unit, percent mark and remark."""

    value: Fraction
    unit: Unit | None = None
    percent: Percent | None = None
    remark: str | None = None
    """Words after the number that are not a listed unit."""
    readings: tuple[Fraction, ...] = ()
    """The value in each unit of a compound quantity such as "1 hour 30 minutes"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A time of day, or a numeral with "a.m." or "p.m."."""

    minutes: int
    half: str | None
    """"a", "p", or None if neither is written."""
    colon: bool


_CURRENCY = re.compile(r"([-+]? ?)\\?([$€£¥])|([-+]? ?)\\text\{ ?\\?([$€£¥]) ?\}")
_CODE = re.compile(r"(?:USD|US\$|Rs\.?|EUR) ?(?=[\d.-])", re.IGNORECASE)
_CODES = {"u": "dollars", "r": "rupees", "e": "euros"}
_PERCENT_SIGN = re.compile(r" ?\\?%")
_TEMPERATURE = re.compile(r"\^\\circ ?([CF])(?![A-Za-z])")
_FRACTION_UNIT = re.compile(r"\\frac ?\{([A-Za-z ]{1,20})\} ?\{([A-Za-z ^\d]{1,20})\}")
_PHRASE = re.compile(r"(?:[^\W_]|[ .,/^{}-])*")
_NO_REMARK = re.compile(r" ?,? ?(?:(?:or|and) (?:\W|\d|[A-Za-z] )|mod )")
_CLOCK = re.compile(r"(\d{1,2})(?:(:)([0-5]\d)(?::[0-5]\d)?)? ?(?:([ap])\.? ?m\.?)?", re.IGNORECASE)
_NEXT_PART = re.compile(r"(?<=[A-Za-z.]) (?:and )?(?=\d)")
_TAIL = re.compile(r"(?<=[\d})A-Za-z])(?: ?\\text\{| (?=[A-Za-z]))")
_NOT_WORDS = frozenset({"pi", "sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt"})


def parse_clock(text: str) -> Clock | None:
    """The time of day that a normalized text consists of, else None."""
    if len(text) > 40:
        return None
    found = _CLOCK.fullmatch(" ".join(TEXT.sub(r" \1", text).split()))
    if found is None or not (found[2] or found[4]):
        return None
    hours, minutes = int(found[1]), int(found[3] or 0)
    half = found[4].lower() if found[4] else None
    if hours >= 24 or (half and not 1 <= hours <= 12):
        return None
    if half:
        hours = hours % 12 + (12 if half == "p" else 0)
    return Clock(minutes=60 * hours + minutes, half=half, colon=bool(found[2]))


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity | None:
    """The quantity that a normalized text consists of; None for anything else, such as ``2x``."""
    if (value := exact_value(text)) is not None:
        return Quantity(value=value)
    if len(text) > MAX_QUANTITY_CHARS:
        return None
    if compound := _compound(text):
        return compound
    text, currency = _without_currency(text)
    if number := leading_number(text):
        return _with_words(Quantity(value=number[0]), number[1], currency)
    number = leading_words(TEXT.sub(r"\1", text).strip())
    return number and _with_words(Quantity(value=number[0]), f" {number[1]}", currency)


def is_quantity(text: str) -> bool:
    """True for a number, a percentage, a time of day, or a number with a known unit."""
    quantity = parse_quantity(text)
    return parse_clock(text) is not None or (quantity is not None and not quantity.remark)


def _compound(text: str) -> Quantity | None:
    """The sum of quantities of one dimension, the larger unit first, as "5 ft 10 in"."""
    if not (" " in text or "\\" in text):
        return None
    words = " ".join(TEXT.sub(r" \1 ", text.replace(",", " ")).split())
    pieces = _NEXT_PART.split(words)
    found = [parse_quantity(piece) for piece in pieces] if 2 <= len(pieces) <= 4 else []
    if not found or not all(part and part.unit and not part.remark for part in found):
        return None
    parts = [(part.value, part.unit) for part in found if part and part.unit]
    value, first = parts[0]
    readings = []
    for (_, large), (number, unit) in itertools.pairwise(parts):
        share, step = ratio(first, unit), ratio(large, unit)
        if share is None or step is None or step >= 1 or not 0 <= number * step < 1:
            return None
        value += number * share
        readings.append(share)
    others = (value / share for share in readings)
    return Quantity(value=value, unit=first, readings=(value, *others))


def _without_currency(text: str) -> tuple[str, Unit | None]:
    if found := _CURRENCY.match(text):
        sign, name = (found[1], found[2]) if found[2] else (found[3], found[4])
        return f"{sign}{text[found.end() :].strip()}".strip(), CURRENCY[name]
    if code := _CODE.match(text):
        return text[code.end() :], parse_unit(_CODES[code[0][0].lower()])
    return text, None


def _with_words(bare: Quantity, rest: str, currency: Unit | None) -> Quantity | None:
    """The number with the words after it; None if something other than words follows."""
    if sign := _PERCENT_SIGN.match(rest):
        bare, rest = replace(bare, percent=Percent.SIGN), rest[sign.end() :]
    bare = replace(bare, unit=currency)
    if not rest.strip():
        return bare
    touching = rest[0].isalpha()
    phrase = _phrase(rest)
    if phrase is None or (touching and is_letter(phrase)):
        return None
    return _parse_words(bare, phrase, touching=touching)


def _phrase(rest: str) -> str | None:
    r"""The words of what follows a number, without ``\text``; None if it is a formula."""
    rest = _TEMPERATURE.sub(
        lambda d: "celsius" if d[1] == "C" else "fahrenheit", TEXT.sub(r"\1", rest)
    )
    rest = _FRACTION_UNIT.sub(r"\1/\2", rest.replace("^\\circ", " degrees "))
    rest = re.sub(r"\\mu ?(?=[A-Za-z])", "micro", rest)
    rest = rest.replace("\\%", " percent ").replace("%", " percent ")
    rest = re.sub(r"\\?[$] ?$", " dollars", rest[-200:]) if len(rest) < 200 else rest
    if rest.strip().startswith("(") and rest.endswith(")"):
        rest = rest.strip()[1:-1]
    # "5 or 6" is a choice of values and "5 mod 7" a residue; "5 or so" is a remark.
    if not _PHRASE.fullmatch(rest) or _NO_REMARK.match(rest):
        return None
    return rest.strip(" ,")


def _parse_words(bare: Quantity, phrase: str, *, touching: bool) -> Quantity | None:
    value, rest = _apply_multipliers(bare.value, phrase)
    first = rest.partition(" ")[0].strip(".,")
    if first.lower() in {"percent", "pct", "percentage"}:
        bare = replace(bare, percent=Percent.WORD)
        rest = rest[len(first) :].strip(" .,")
    bare = replace(bare, value=value)
    if not rest.strip(" .,"):
        return bare
    unit = parse_unit(rest)
    if unit is not None:
        known = bare.unit is None or unit == bare.unit
        return replace(bare, unit=unit) if known else replace(bare, remark=rest)
    compound = parse_unit(f"dollars {rest}") if bare.unit == CURRENCY["$"] else None
    if compound is not None:
        return replace(bare, unit=compound)
    return replace(bare, remark=rest) if _is_wordy(rest, touching=touching) else None


def _apply_multipliers(value: Fraction, phrase: str) -> tuple[Fraction, str]:
    """Multiplier words before anything else: "5 hundred thousand dollars"."""
    while True:
        word, _, rest = phrase.partition(" ")
        factor = multiplier(word.strip(".,"))
        if factor is None:
            return value, phrase
        value, phrase = value * factor, rest.removeprefix("of ")


def _is_wordy(rest: str, *, touching: bool) -> bool:
    """True if words follow the number, not a product of symbols."""
    words = re.findall(r"[^\W\d_]+", rest)
    longest = max((len(word) for word in words if word.lower() not in _NOT_WORDS), default=0)
    return longest > (3 if touching else 1) or (not rest.isascii() and bool(words))


def tail_splits(text: str) -> Iterator[tuple[str, Unit]]:
    """Yield the splits of a formula into value and trailing unit, the longest unit first.

    Only the last 80 characters are searched.
    """
    for found in _TAIL.finditer(text, max(0, len(text) - 80)):
        place = found.start()
        phrase = _phrase(text[place:])
        unit = parse_unit(phrase) if phrase else None
        if unit is not None and place:
            yield text[:place].strip(), unit
