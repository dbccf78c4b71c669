"""Calculations that a text states, as in "6 + 7 = 13", and whether they are right.

A right answer can follow from wrong steps that cancel, or from a guessed number. Such a path passes a verifier of
answers, and as training data it teaches wrong arithmetic.
"""

import re
from fractions import Fraction

_NUMBER = r"\d++(?:,\d{3})*+(?:\.\d++)?+"
_QUANTITY = rf"[$€£]?{_NUMBER}%?(?:[ ](?!x\b)[A-Za-z]++)?"
"""A number, with at most one word after it: "12", "$3.50", "20%", "4 apples"."""
_SIGN = r"[-+*/×·÷−–x]"  # noqa: RUF001 - as models write them
_CALCULATION = re.compile(
    rf"(?<!\d)(?P<terms>{_QUANTITY}(?:\s*{_SIGN}\s*{_QUANTITY}){{1,8}}+)\s*=\s*(?P<result>-?{_QUANTITY})"
)
_TERM = re.compile(rf"(?P<sign>{_SIGN})?\s*[$€£]?(?P<number>{_NUMBER})(?P<percent>%?)")
_CONTINUED = re.compile(rf"\s*(?:{_SIGN}\s*[$(]?\d)")
_JOINED_TO = frozenset("+-*/×·÷−–).^")  # noqa: RUF001
_ASCII = str.maketrans("×·÷−–x", "**/--*")  # noqa: RUF001


def states_right_calculations(text: str) -> bool:
    """True if ``text`` states at least one calculation and all of them are right.

    A calculation is a chain of at most nine numbers and the four signs before "=" and a number; others, and those
    with brackets, are passed over. The result may be rounded to the decimal places it shows, if it shows any.
    """
    found = [
        _is_right(match["terms"], match["result"])
        for match in _CALCULATION.finditer(text)
        if not _is_part(text, match)
    ]
    return bool(found) and all(found)


def _is_part(text: str, match: re.Match[str]) -> bool:
    """True if the chain or the result goes on outside the match."""
    before = text[: match.start()].rstrip()[-1:]
    return before in _JOINED_TO or _CONTINUED.match(text, match.end()) is not None


def _is_right(terms: str, result: str) -> bool:
    value = _evaluate(terms)
    if value is None:
        return False
    shown = _TERM.search(result)
    assert shown is not None, result
    number = -_read(shown) if result.startswith("-") else _read(shown)
    places = len(shown["number"].partition(".")[2])
    unit = Fraction(1, 10**places * (100 if shown["percent"] else 1))
    return value == number or (places > 0 and abs(value - number) <= unit / 2)


def _evaluate(terms: str) -> Fraction | None:
    """Products before sums, from left to right; None if it divides by zero."""
    summands: list[Fraction] = []
    for term in _TERM.finditer(terms):
        sign = (term["sign"] or "+").translate(_ASCII)
        number = _read(term)
        match sign:
            case "+" | "-":
                summands.append(number if sign == "+" else -number)
            case "*":
                summands[-1] *= number
            case _ if number:
                summands[-1] /= number
            case _:
                return None
    return sum(summands, Fraction())


def _read(term: re.Match[str]) -> Fraction:
    number = Fraction(term["number"].replace(",", ""))
    return number / 100 if term["percent"] else number
