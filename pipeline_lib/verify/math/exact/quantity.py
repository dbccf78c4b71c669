r"""Numbers with their context: words, currency, multipliers, percent, units, times of day.

A quantity is parsed only if every word is recognized ("two hundred and five", "three quarters"). The
policy on dropped units and percent signs is in docs/verification-policy.md. All functions take linear
time.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from pipeline_lib.verify.math.exact.normal_form import TEXT, leading_number
from pipeline_lib.verify.math.exact.units import Unit, parse_unit, ratio

_ONES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
""".split()  # noqa: SIM905 - words to be read
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_SMALL: Mapping[str, int] = {
    **{word: value for value, word in enumerate(_ONES)},
    **{word: 10 * value for value, word in enumerate(_TENS, start=2)},
}
MULTIPLIERS: Mapping[str, int] = {
    "dozen": 12, "score": 20, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "trillion": 10**12,
}  # fmt: skip
_PARTS: Mapping[str, int] = {
    "half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100,
}  # fmt: skip
_AFTER_ARTICLE = frozenset(MULTIPLIERS) | frozenset(_PARTS)
_WORD = re.compile(r"[a-z]+")
_MAX_CHARS = 120


def multiplier(word: str) -> int | None:
    """The factor named by a word after a number, singular or plural; None for other words."""
    word = word.lower()
    return MULTIPLIERS.get(word) or MULTIPLIERS.get(word.removesuffix("s"))


def _leading_words(phrase: str) -> tuple[Fraction, str] | None:
    """The number spelled by the first words of a phrase, and the rest; None if there is none."""
    phrase = phrase.strip()
    words = list(_WORD.finditer(phrase.lower())) if len(phrase) <= _MAX_CHARS else []
    if not words or words[0].start() > 0:
        return None
    if words[0][0] in {"a", "an"} and (len(words) == 1 or words[1][0] not in _AFTER_ARTICLE):
        return None
    for end in range(len(words), 0, -1):
        value = _words_value([word[0] for word in words[:end]])
        if value is not None:
            return value, phrase[words[end - 1].end() :].strip()
    return None


def _words_value(words: Sequence[str]) -> Fraction | None:
    if words[0] in {"negative", "minus"} and len(words) > 1:
        value = _words_value(words[1:])
        return None if value is None else -value
    part = _PARTS.get(words[-1]) or _PARTS.get(words[-1].removesuffix("s"))
    # "Two" before "thirds", "three and a" or nothing before "half".
    above = words[:-1] if part else words
    if not above:
        return Fraction(1, 2) if part == 2 else None
    if part and "and" in above:
        place = len(above) - 1 - above[::-1].index("and")
        whole, rest = _whole(above[:place]), _whole(above[place + 1 :])
        if whole is not None and rest is not None and rest < part:
            return whole + Fraction(rest, part)
    number = _whole(above)
    return None if number is None else Fraction(number, part or 1)


def _whole(words: Sequence[str]) -> int | None:
    """A whole number; "a" or "an" means one before a multiplier, or alone before a fraction."""
    if not words or "and" in (words[0], words[-1]):
        return None
    article = words[0] in {"a", "an"}
    if article and len(words) > 1 and words[1] not in MULTIPLIERS:
        return None
    total = current = last = 0
    for word in ["one", *words[1:]] if article else words:
        small, factor = _SMALL.get(word, -1), MULTIPLIERS.get(word, 0)
        # "twenty one" and "hundred one", not "one two".
        if small >= 0 and (last % 100 == 0 or (last >= 20 and last % 10 == 0 and 0 < small < 10)):
            current, last = current + small, small or 1
        elif factor >= 1000 and current:
            total, current, last = total + current * factor, 0, factor
        elif 0 < current < 100 and factor:
            current, last = current * factor, factor
        elif word != "and" or last < 100:
            return None
    return total + current


MAX_QUANTITY_CHARS = 600


class Quantity(NamedTuple):
    """An exact number with its unit, percent mark and remark."""

    value: Fraction
    unit: Unit | None = None
    percent: Literal["sign", "word"] | None = None
    remark: str | None = None
    """Words after the number that are not a listed unit."""
    readings: tuple[Fraction, ...] = ()
    """The value in each unit of a compound quantity such as "1 hour 30 minutes"."""


class Clock(NamedTuple):
    """A time of day, or a numeral with "a.m." or "p.m."."""

    minutes: int
    half: str | None
    """"a", "p", or None if neither is written."""
    colon: bool


_CURRENCY = re.compile(
    r"([-+]? ?)(?:\\?([$€£¥])|\\text\{ ?\\?([$€£¥]) ?\}|(USD|US\$|Rs\.?|EUR) ?(?=[\d.-]))",
    re.IGNORECASE,
)
_CURRENCIES = {"$": "usd", "u": "usd", "€": "eur", "e": "eur", "£": "gbp", "¥": "yen", "r": "rs"}
_PERCENT_SIGN = re.compile(r" ?\\?%")
_TEMPERATURE = re.compile(r"\^\\circ ?([CF])(?![A-Za-z])")
_SCALES = {"C": "celsius", "F": "fahrenheit"}
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
    if len(text) > MAX_QUANTITY_CHARS:
        return None
    if compound := _compound(text):
        return compound
    currency = None
    if found := _CURRENCY.match(text):
        name = found[2] or found[3] or found[4]
        currency = parse_unit(_CURRENCIES[name[0].lower()])
        text = f"{found[1]}{text[found.end() :].strip()}".strip()
    number = leading_number(text)
    if number is None and (words := _leading_words(TEXT.sub(r"\1", text).strip())):
        number = words[0], f" {words[1]}"
    return number and _with_words(Quantity(value=number[0], unit=currency), number[1])


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
    parts = [(part.value, part.unit) for part in found if part and part.unit and not part.remark]
    if not found or len(parts) < len(found):
        return None
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


def _with_words(bare: Quantity, rest: str) -> Quantity | None:
    """The number with the words after it; None if something other than words follows."""
    if sign := _PERCENT_SIGN.match(rest):
        bare, rest = bare._replace(percent="sign"), rest[sign.end() :]
    if not rest.strip():
        return bare
    touching = rest[0].isalpha()
    phrase = _phrase(rest)
    # Directly after a number, a letter is a symbol; as a unit it follows a space or ``\text``.
    if phrase is None or (touching and re.match(r"[mgshLltJWNVAbB](?![^\W\d_])", phrase)):
        return None
    return _parse_words(bare, phrase, touching=touching)


def _phrase(rest: str) -> str | None:
    r"""The words of what follows a number, without ``\text``; None if it is a formula."""
    rest = _TEMPERATURE.sub(lambda degrees: _SCALES[degrees[1]], TEXT.sub(r"\1", rest))
    rest = _FRACTION_UNIT.sub(r"\1/\2", rest.replace("^\\circ", " degrees "))
    rest = re.sub(r"\\mu ?(?=[A-Za-z])", "micro", rest)
    rest = re.sub(r"\\?[$] ?$", " dollars", re.sub(r"\\?%", " percent ", rest))
    if rest.strip().startswith("(") and rest.endswith(")"):
        rest = rest.strip()[1:-1]
    # "5 or 6" is a choice of values and "5 mod 7" a residue; "5 or so" is a remark.
    if not _PHRASE.fullmatch(rest) or _NO_REMARK.match(rest):
        return None
    return rest.strip(" ,")


def _parse_words(bare: Quantity, phrase: str, *, touching: bool) -> Quantity | None:
    first, _, rest = phrase.partition(" ")
    while factor := multiplier(first.strip(".,")):
        bare = bare._replace(value=bare.value * factor)
        phrase = rest.removeprefix("of ")
        first, _, rest = phrase.partition(" ")
    if first.strip(".,").lower() in {"percent", "pct", "percentage"}:
        bare, phrase = bare._replace(percent="word"), rest
    phrase = phrase.strip(" .,")
    if not phrase:
        return bare
    unit = parse_unit(phrase)
    if unit is not None:
        known = bare.unit is None or unit == bare.unit
        return bare._replace(unit=unit) if known else bare._replace(remark=phrase)
    compound = parse_unit(f"dollars {phrase}") if bare.unit == parse_unit("dollar") else None
    if compound is not None:
        return bare._replace(unit=compound)
    words = re.findall(r"[^\W\d_]+", phrase)
    longest = max((len(word) for word in words if word.lower() not in _NOT_WORDS), default=0)
    # Words follow the number, not a product of symbols.
    wordy = longest > (3 if touching else 1) or (not phrase.isascii() and words)
    return bare._replace(remark=phrase) if wordy else None


def split_unit(text: str) -> tuple[str, Unit | None]:
    """A formula and its trailing unit, the longest one; only the last 80 characters are searched."""
    for found in _TAIL.finditer(text, max(0, len(text) - 80)):
        place = found.start()
        phrase = _phrase(text[place:])
        unit = parse_unit(phrase) if phrase else None
        if unit is not None and place:
            return text[:place].strip(), unit
    return text, None
