"""Exact values of numbers in English words ("two hundred and five", "three quarters")."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

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


def leading_number(phrase: str) -> tuple[Fraction, str] | None:
    """The number spelled by the first words of a phrase, and the rest; None if there is none."""
    phrase = phrase.strip()
    words = list(_WORD.finditer(phrase.lower())) if len(phrase) <= _MAX_CHARS else []
    if not words or words[0].start() > 0:
        return None
    if words[0][0] in {"a", "an"} and (len(words) == 1 or words[1][0] not in _AFTER_ARTICLE):
        return None
    for end in range(len(words), 0, -1):
        value = _value([word[0] for word in words[:end]])
        if value is not None:
            return value, phrase[words[end - 1].end() :].strip()
    return None


def _value(words: Sequence[str]) -> Fraction | None:
    if words[0] in {"negative", "minus"} and len(words) > 1:
        value = _value(words[1:])
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
