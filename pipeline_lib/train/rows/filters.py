"""Filters of problems by difficulty, and of paths by completeness, duplication and stated calculations."""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.records import FinishReason, Group, JudgedPath

NEAR_DUPLICATE_JACCARD = 0.9
_NGRAM_TOKENS = 3
_TOKEN = re.compile(r"\w+|[^\w\s]")


def pass_rate(group: Group) -> float | None:
    """Share of scored paths that are strictly right; None without scored paths."""
    scored = len(group.scored())
    return group.num_correct(strict=True) / scored if scored else None


def filter_by_difficulty(
    groups: Iterable[Group], params: BuildParams
) -> tuple[list[Group], dict[str, int]]:
    """The groups whose pass rate is strictly between the bounds, and the number of problems by outcome.

    Groups that are all right or all wrong have zero group-relative advantage. Dropping their
    problems beforehand replaces the dynamic sampling of DAPO.

    Source: Yu et al. 2025, arXiv:2503.14476, section 3.2.
    """
    kept: list[Group] = []
    unkept: list[float | None] = []
    for group in groups:
        rate = pass_rate(group)
        if rate is not None and params.min_pass_rate < rate < params.max_pass_rate:
            kept.append(group)
        else:
            unkept.append(rate)
    return kept, {
        "problems_kept": len(kept),
        "problems_all_right": unkept.count(1.0),
        "problems_all_wrong": unkept.count(0.0),
        "problems_out_of_bounds": sum(rate not in {None, 0.0, 1.0} for rate in unkept),
        "problems_unscored": unkept.count(None),
    }


def count_paths(groups: Sequence[Group]) -> dict[str, int]:
    """Counts of paths by verdict, with wrong format counted apart from wrong answers."""
    members = [member for group in groups for member in group.members]
    scored = [member for group in groups for member in group.scored()]
    return {
        "problems": len(groups),
        "paths": len(members),
        "paths_unscored": len(members) - len(scored),
        "paths_right": sum(member.verdict.strict is True for member in scored),
        "paths_wrong_in_format_only": sum(
            member.verdict.lenient is True and member.verdict.strict is False for member in scored
        ),
        "paths_wrong": sum(member.verdict.lenient is False for member in scored),
        "paths_truncated": sum(not is_complete(member) for member in scored),
    }


def is_complete(member: JudgedPath) -> bool:
    """True if the path ends with an end token and is not empty."""
    return member.path.finish_reason is FinishReason.STOP and bool(member.path.text.strip())


def deduplicate(members: Iterable[JudgedPath]) -> list[JudgedPath]:
    """The first of every set of exact or near duplicates, in input order.

    Near duplicates have a Jaccard similarity of at least 0.9 over 3-grams of words, ignoring case and
    white space. Groups are small, so all pairs are compared without MinHash.
    """
    kept: list[tuple[JudgedPath, AbstractSet[str]]] = []
    for member in members:
        ngrams = _ngrams(member.path.text)
        if all(
            len(ngrams & other) / len(ngrams | other) < NEAR_DUPLICATE_JACCARD for _, other in kept
        ):
            kept.append((member, ngrams))
    return [member for member, _ in kept]


def _ngrams(text: str) -> AbstractSet[str]:
    tokens = _TOKEN.findall(text.casefold())
    starts = range(max(1, len(tokens) - _NGRAM_TOKENS + 1))
    return {" ".join(tokens[start : start + _NGRAM_TOKENS]) for start in starts}


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
    """True if ``text`` states at least one calculation, as in "6 + 7 = 13", and all of them are right.

    A right answer can follow from wrong steps that cancel, or from a guess; training on such a path can teach wrong arithmetic.

    A calculation is a chain of at most nine numbers and the four operators before "=" and a number; other
    calculations, and calculations with brackets, are ignored. The result may be rounded to the decimal places it shows, if it shows any.
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
