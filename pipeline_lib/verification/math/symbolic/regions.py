r"""Inequalities and intervals as sets of real numbers: ``x > 2`` is ``(2, \infty)``.

Imported by workers only.
"""

import re
from typing import Any, NamedTuple

import sympy

from pipeline_lib.verification.math.symbolic.grammar import parse_number
from pipeline_lib.verification.math.symbolic.structure import split_at

_DEFINITE = re.compile(
    r"\\infty|\\cup|\\cap|\\setminus|\\in(?![a-z])|\\mathbb|[<>]|\\(?:le|leq|leqslant|ge|geq|geqslant|lt"
    r"|gt|neq?)(?![a-z])"
    r"|\[[^\[\]()]*\)$|^\([^\[\]()]*\]$|\\mid|\{[^{}]*:"
)
_RELATIONS = {
    "<": "<", "\\lt": "<", ">": ">", "\\gt": ">", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=",
    "\\ge": ">=", "\\geq": ">=", "\\geqslant": ">=", "\\ne": "!=", "\\neq": "!=",
}  # fmt: skip
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}
_VARIABLE = re.compile(r"(?!\\pi$)(?:\\?[A-Za-z]+(?:_\{?\w\}?)?|[a-z]\(x\)|\|\\?[A-Za-z]+\|)")
_REALS = re.compile(r"\\mathbb ?\{? ?R ?\}?|\\Reals|\(-\\infty, ?\+?\\infty\)")
_BRACES = re.compile(r"^\\(?:\{|lbrace)|\\(?:\}|rbrace)$")
_INTERVAL = re.compile(r"([(\[])(.*)([)\]])", re.DOTALL)


class Region(NamedTuple):
    """A set of real numbers, and the variable that is stated to lie in it."""

    points: sympy.Set
    variable: str | None = None


def denotes_set(text: str) -> bool:
    """True if a text can only denote a set of real numbers; ``(1, 2)`` may be a point."""
    return _DEFINITE.search(text) is not None


def parse_region(text: str) -> Region | None:
    """The set that a normalized text describes; None if it describes none unambiguously."""
    text = text.strip()
    for separators, join in (
        ({"or", "\\lor", "\\vee", "\\cup"}, sympy.Union),
        ({"and", "\\land", "\\wedge", "\\cap"}, sympy.Intersection),
    ):
        parts, found = split_at(text, separators)
        if found:
            return _join([parse_region(part) for part in parts], join)
    parts, found = split_at(text, {"\\in"})
    if found:
        inner = parse_region(parts[1]) if len(parts) == 2 else None
        named = _VARIABLE.fullmatch(parts[0]) and "|" not in parts[0]
        return Region(inner.points, parts[0]) if inner and named else None
    parts, found = split_at(text, {"\\setminus", "\\backslash"})
    if len(found) == 1:
        whole, removed = parse_region(parts[0]), _finite_set(parts[1])
        return whole and removed and Region(whole.points - removed, whole.variable)
    return _single(text)


def _join(parts: list[Region | None], join: Any) -> Region | None:
    regions = [part for part in parts if part is not None]
    variables = {part.variable for part in regions if part.variable}
    if len(regions) < len(parts) or len(variables) > 1:
        return None
    points = join(*(part.points for part in regions))
    return Region(points, next(iter(variables), None))


def _single(text: str) -> Region | None:
    if _REALS.fullmatch(text) or text == "\\emptyset":
        points = sympy.S.EmptySet if text == "\\emptyset" else sympy.S.Reals
        return Region(points)
    if text.startswith(("\\{", "\\lbrace")) and text.endswith(("\\}", "\\rbrace")):
        return _set_builder(text)
    parts, relations = split_at(text, _RELATIONS)
    if relations:
        return _chain(parts, [_RELATIONS[sign] for sign in relations])
    found = _INTERVAL.fullmatch(text)
    ends = split_at(found[2], {","})[0] if found else []
    return _interval(ends, found[1] + found[3]) if found and len(ends) == 2 else None


def _set_builder(text: str) -> Region | None:
    r"""``\{x : x > 2\}``, ``\{x \in \mathbb{R} \mid x > 2\}``, or a finite set in a union."""
    parts, found = split_at(_BRACES.sub("", text), {":", "|", "\\mid"})
    if not found:
        points = _finite_set(text)
        return Region(points) if points is not None else None
    condition = parse_region(parts[1]) if len(found) == 1 else None
    named = condition and condition.variable in {None, parts[0].partition("\\in")[0].strip()}
    return Region(condition.points) if condition and named else None


def _finite_set(text: str) -> sympy.Set | None:
    parts, _ = split_at(_BRACES.sub("", text.strip()), frozenset({","}))
    values = [parse_number(part) for part in parts]
    return None if None in values else sympy.FiniteSet(*values)


def _interval(texts: list[str], brackets: str) -> Region | None:
    ends = [_end(text) for text in texts]
    if None in ends or (all(end.is_number for end in ends) and not ends[0] < ends[1]):
        return None
    return Region(sympy.Interval(*ends, brackets[0] == "(", brackets[1] == ")"))


def _end(text: str) -> Any:
    if infinite := re.fullmatch(r"([-+]?) ?\\infty", text):
        return -sympy.oo if infinite[1] == "-" else sympy.oo
    return parse_number(text)


def _chain(parts: list[str], signs: list[str]) -> Region | None:
    """``a < x``, ``|x| < a`` and ``a < x < b``; the variable must be alone on its side."""
    halves = []
    for left, sign, right in zip(parts, signs, parts[1:], strict=False):
        alone = [bool(_VARIABLE.fullmatch(side)) for side in (left, right)]
        if alone == [True, False]:
            halves.append(_half_line(left, sign, _end(right)))
        elif alone == [False, True]:
            halves.append(_half_line(right, _FLIPPED[sign], _end(left)))
        else:
            return None
    return _join(halves, sympy.Intersection)


def _half_line(variable: str, sign: str, end: Any) -> Region | None:
    """``x < a``; ``|x| < a`` is ``-a < x < a``, and ``|x| > a`` is its complement."""
    if end is None:
        return None
    if variable[0] == "|":
        if not end.is_positive or sign == "!=":
            return None
        ends = (_half_line(variable[1:-1], s, e) for s, e in ((sign, end), (_FLIPPED[sign], -end)))
        return _join(list(ends), sympy.Intersection if "<" in sign else sympy.Union)
    if sign == "!=":
        return Region(sympy.S.Reals - sympy.FiniteSet(end), variable)
    limits = (-sympy.oo, end) if "<" in sign else (end, sympy.oo)
    is_open = "=" not in sign
    return Region(sympy.Interval(*limits, is_open, is_open), variable)


def same_region(gold: Region, answer: Region) -> bool:
    """True if two sets are equal, and their variables too if both are named."""
    if gold.variable and answer.variable and gold.variable != answer.variable:
        return False
    both = gold.points, answer.points
    return both[0] == both[1] or both[0].symmetric_difference(both[1]) is sympy.S.EmptySet
