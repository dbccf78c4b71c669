r"""Comparison of two normalized answers by words and exact arithmetic, without SymPy.

The policy is in docs/verification-policy.md. Linear in the length of the texts, because it runs in
the parent process.
"""

import itertools
import math
import re
from bisect import bisect_left
from fractions import Fraction
from typing import Any, NamedTuple

from pipeline_lib.verify.math.exact.normal_form import TEXT, exact_value
from pipeline_lib.verify.math.exact.quantity import Clock, Quantity, parse_clock, parse_quantity
from pipeline_lib.verify.math.exact.units import ratio

MIN_ROUNDED_DECIMALS = 6

_HALF_DAY = 12 * 60
_NAMED = re.compile(
    r"(?!\\(?:not|neg?|neq|lnot|sim)(?![a-z]))(?:\\?[A-Za-z]{1,7}(?:_\{?\w\}?)?"
    r"|\\text\{([^{}]{1,40})\}) ?(?:=|\\approx) ?([^=,;]+)"
)
_WORDS = re.compile(r"[^\W\d_](?:[^\W\d_]|[ ,.']|(?<=[^\W\d_]{3})-(?=[^\W\d_]{3}))*")
_LISTED = re.compile(r" ?(?:,| and\b| or\b| &) ?(?:and |or )?")
_RECOGNIZED = re.compile(
    r"(?:or|and|not|never|un\w+|perhaps|maybe|possibly|probably|wrong|incorrect|false|is|if|at|about|"
    r"approximately|approx|roughly|around|nearly|almost|more|less|most|least|fewer|excluded|except|"
    r"negative|positive|minus|plus|times|over|under|choose|squared|cubed|factorial|root|roots|half|"
    r"hal\w*|third\w*|quarter\w*|fourth\w*|fift\w*|sixth\w*|tenth\w*|to|mod\w*|log|ln|pi|divided|"
    r"multiplied|of|power|base|than|but|no|none|nor|neither|below|above|a\.?m|p\.?m)\b",
    re.IGNORECASE,
)
"""Words directly after a number that change its meaning; never names of units."""
_CHOICE = re.compile(
    r"(?:(?i:option|choice|answer)s? )?(?:\( ?([A-Ja-j]) ?\)|([A-Ja-j])(?:[).:](?= |$)|$))(?: ?(\S.*))?"
)
_NEXT_CHOICE = re.compile(r" ?(?:[,;&]|\band\b) ?(?:and )?")
_CHOICE_START = re.compile(r"[\\(A-Ja-jOo]")
_MAX_CHOICE_CHARS = 200


class AmbiguousError(ValueError):
    """A text has two readings and only one of them is right; the message describes it."""


class _Choice(NamedTuple):
    """Upper-case letters, marked as such or bare, and the text after a single letter."""

    letters: tuple[str, ...]
    marked: bool
    rest: str = ""


def compare(gold: str, answer: str) -> bool | None:
    """True if two normalized answers are equal; None if formulas must be compared.

    Raises:
        AmbiguousError: only one of two readings is right.
    """
    if gold == answer or _spelling(gold) == _spelling(answer):
        return True
    gold_value, answer_value = exact_value(gold), exact_value(answer)
    if gold_value is not None and answer_value is not None:
        return _is_close(gold_value, answer_value)
    stripped = without_letter(gold, answer)
    if stripped != (gold, answer):
        return compare(*stripped)
    one, other = _parse_choice(gold), _parse_choice(answer)
    if one and other and (one.marked or other.marked):
        return one.letters == other.letters
    for rule in (_by_ratio, _by_clock, _by_words):
        if (same := rule(gold, answer)) is not None:
            return same
    return _by_quantity(_strip_name(gold, answer), _strip_name(answer, gold))


def _spelling(text: str) -> str:
    bare = TEXT.sub(r"\1", text) if "\\text" in text else text
    # "1 1/2" is not "11/2": a space between digits stays.
    return re.sub(r"(?<!\d) +| +(?!\d)", "", bare) if " " in bare else bare


def _parse_choice(text: str) -> _Choice | None:
    """The letters that a normalized text consists of; None for anything else."""
    if len(text) > _MAX_CHOICE_CHARS or not _CHOICE_START.match(text):
        return None
    bare = " ".join(TEXT.sub(r" \1 ", text).split())
    if re.fullmatch("A?B?C?D?E?F?G?H?I?J?", bare) and len(bare) > 1:
        return _Choice(letters=tuple(bare), marked=False)
    parts = [_CHOICE.fullmatch(part) for part in _NEXT_CHOICE.split(bare)]
    letters = [(part[1] or part[2]).upper() for part in parts if part and not part[3]]
    if len(letters) == len(parts):
        return _Choice(letters=tuple(sorted(letters)), marked=bare != text or len(bare) > 1)
    found = _CHOICE.fullmatch(bare)
    if found and found[3] and (found[1] or found[2]).isupper():
        return _Choice(letters=(found[1] or found[2],), marked=True, rest=found[3])
    return None


def without_letter(gold: str, answer: str) -> tuple[str, str]:
    """Both texts without their letters, if only one of them has a letter."""
    one, other = _parse_choice(gold), _parse_choice(answer)
    if (one is None) != (other is None):
        gold = one.rest or gold if one else gold
        answer = other.rest or answer if other else answer
    return gold, answer


def _by_clock(gold: str, answer: str) -> bool | None:
    """Times of day; a bare number is a full hour."""
    one, other = parse_clock(gold), parse_clock(answer)
    if one and other:
        return _same_time(one, other)
    time, text = one or other, answer if one else gold
    if time is None:
        return None
    value = exact_value(text)
    if time.colon or value is None:
        # A ratio such as 3:2 is not a time, and a time is not a ratio.
        return False if value is not None or ":" in text or "\\frac" in text else None
    return value == (time.minutes // 60 - 1) % 12 + 1


def _same_time(one: Clock, other: Clock) -> bool:
    if one.minutes == other.minutes:
        return True
    if one.half or other.half:
        # Only hours up to 12 leave out a.m. or p.m.
        unnamed = other if one.half else one
        same = (one.minutes - other.minutes) % _HALF_DAY == 0 and unnamed.minutes < _HALF_DAY + 60
        return same and not (one.half and other.half)
    hours, minutes = divmod(one.minutes, 60)
    other_hours, other_minutes = divmod(other.minutes, 60)
    # A gold that is a ratio is in lowest terms.
    if hours * other_minutes == other_hours * minutes and math.gcd(hours, minutes) == 1:
        raise AmbiguousError("as times of day they differ, as ratios they are equal")
    return False


def _by_ratio(gold: str, answer: str) -> bool | None:
    """Ratios of three numbers or more, up to a common factor."""
    if ":" not in gold or ":" not in answer:
        return None
    one, other = ([exact_value(p.strip()) for p in text.split(":")] for text in (gold, answer))
    if len(one) < 3 or not all(one) or not all(other):
        return None
    factors = {left / right for left, right in zip(one, other, strict=False) if left and right}
    return len(one) == len(other) and len(factors) == 1


def _by_words(gold: str, answer: str) -> bool | None:
    r"""Words, compared by spelling: ``\text{DOG}`` is not a product of D, O and G."""
    one, other = (TEXT.sub(r"\1", text).strip() for text in (gold, answer))
    if not (_WORDS.fullmatch(one) and _WORDS.fullmatch(other)):
        return None
    marked = "\\text" in gold or "\\text" in answer
    lists = [sorted(word for word in _LISTED.split(text) if word) for text in (one, other)]
    if len(lists[0]) > 1 and ("or" in one.split()) == ("or" in other.split()):
        same = lists[0] == lists[1]
        return same or (None if max(map(len, lists[0])) < 3 and not marked else False)
    folded = [re.sub(r"[ .]", "", word).casefold() for word in (one, other)]
    if parse_quantity(gold) and parse_quantity(answer):
        return None
    if len(one) > 1 and len(other) > 1 and folded[0] == folded[1]:
        return marked or {one, other} <= {one.lower(), one.capitalize()}
    if marked or one.isupper() or len(one) > 3 or (other.isupper() and len(other) > 1):
        return False
    return None


def _strip_name(text: str, other: str) -> str:
    """The right side of "x = 5" if ``other`` is no equation, else the text."""
    named = None if "=" in other else _NAMED.fullmatch(text)
    if named is None or (named[1] and _RECOGNIZED.match(named[1].strip())):
        return text
    return named[2].strip()


def _by_quantity(gold: str, answer: str) -> bool | None:
    one, other = parse_quantity(gold), parse_quantity(answer)
    if one is None:
        return False if "_" not in gold and _is_denied(other) else None
    if other is None:
        return None if one.remark or re.search(r"[\d\\]", answer) else False
    if one.remark or other.remark:
        if one.value != other.value or _is_denied(other) or _is_denied(one):
            return False
        raise AmbiguousError("the words after the number are not on the list of units")
    if one.unit and other.unit:
        factor = ratio(one.unit, other.unit)
        names = [name for unit in (one.unit, other.unit) for name, _ in unit.dimensions]
        counted = all(name.startswith("#") for name in names)
        if factor is None and counted and one.value == other.value:
            raise AmbiguousError("the counted things have different names")
        return factor is not None and _is_close(one.value, other.value * factor)
    return _same_value(one, other)


def _is_denied(answer: Quantity | None) -> bool:
    return answer is not None and bool(answer.remark and _RECOGNIZED.match(answer.remark))


def _same_value(gold: Quantity, answer: Quantity) -> bool:
    golds, answers = {gold.value, *gold.readings}, {answer.value, *answer.readings}
    if answer.percent and not gold.percent:
        answers.add(answer.value / 100)
        if answer.percent == "word" and _is_close(gold.value, answer.value) and answer.value:
            raise AmbiguousError("the answer says percent, and the gold does not")
    if gold.percent and not answer.percent:
        answers.add(answer.value * 100)
    return any(itertools.starmap(_is_close, itertools.product(golds, answers)))


def _is_close(left: Fraction, right: Fraction) -> bool:
    return left == right or _rounds_to(left, right) or _rounds_to(right, left)


def _rounds_to(value: Fraction, rounded: Fraction) -> bool:
    """True if ``rounded`` has six or more decimals, of a non-terminating ``value``, rounded."""
    if decimals(value) is not None:
        return False
    places = decimals(rounded)
    if places is None or places < MIN_ROUNDED_DECIMALS:
        return False
    cut = Fraction(int(value * 10**places), 10**places)
    return rounded == round(value, places) or (places > MIN_ROUNDED_DECIMALS and rounded == cut)


def decimals(value: Any) -> int | None:
    """Number of decimals; None if the decimal does not terminate."""
    denominator = int(value.denominator)
    most = denominator.bit_length()
    if pow(10, most, denominator):
        return None
    return bisect_left(range(most), 1, key=lambda places: pow(10, places, denominator) == 0)
