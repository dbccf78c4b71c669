r"""Inequalities and intervals as sets of real numbers: ``x > 2`` is ``(2, \infty)``.

Imported by workers only.
"""

import re
from typing import Any, NamedTuple

import sympy

from pipeline_lib.verify.math.symbolic.grammar import parse_number
from pipeline_lib.verify.math.symbolic.structure import split_at

DEFINITE = re.compile(
    r"\\infty|\\cup|\\cap|\\setminus|\\in(?![a-z])|\\mathbb|[<>]|\\(?:le|leq|leqslant|ge|geq|geqslant|lt"
    r"|gt|neq?)(?![a-z])"
    r"|\[[^\[\]()]*\)$|^\([^\[\]()]*\]$|\\mid|\{[^{}]*:"
)
"""In texts that can only denote a set of real numbers; ``(1, 2)`` may be a point."""
_RELATIONS = {
    "<": "<", "\\lt": "<", ">": ">", "\\gt": ">", "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=",
    "\\ge": ">=", "\\geq": ">=", "\\geqslant": ">=", "\\ne": "!=", "\\neq": "!=",
}  # fmt: skip
_MIRRORED = str.maketrans("<>", "><")
_JOINTS = (
    ({"or", "\\lor", "\\vee", "\\cup"}, sympy.Union),
    ({"and", "\\land", "\\wedge", "\\cap"}, sympy.Intersection),
    ({"\\setminus"}, sympy.Complement),
)
_VARIABLE = re.compile(r"(?!\\pi$)(?:\\?[A-Za-z]+(?:_\{?\w\}?)?|[a-z]\(x\)|\|\\?[A-Za-z]+\|)")
_REALS = re.compile(r"\\mathbb ?\{? ?R ?\}?|\\Reals|\(-\\infty, ?\+?\\infty\)")
_INTERVAL = re.compile(r"([(\[])(.*)([)\]])", re.DOTALL)


class Region(NamedTuple):
    """A set of real numbers, and the variable that is stated to lie in it."""

    points: sympy.Set
    variable: str | None = None


def parse_region(text: str) -> Region | None:
    """The set that a normalized text describes; None if it describes none unambiguously."""
    text = text.strip()
    for separators, join in _JOINTS:
        parts, found = split_at(text, separators)
        if found:
            return _join([parse_region(part) for part in parts], join)
    parts, found = split_at(text, {"\\in"})
    if found:
        inner = parse_region(parts[1]) if len(parts) == 2 else None
        named = _VARIABLE.fullmatch(parts[0]) and "|" not in parts[0]
        return Region(inner.points, parts[0]) if inner and named else None
    if _REALS.fullmatch(text) or text == "\\emptyset":
        return Region(sympy.S.EmptySet if text == "\\emptyset" else sympy.S.Reals)
    if text.startswith("\\{") and text.endswith("\\}"):
        return _in_braces(text[2:-2])
    parts, relations = split_at(text, _RELATIONS)
    if relations:
        return _chain(parts, [_RELATIONS[sign] for sign in relations])
    interval = _INTERVAL.fullmatch(text)
    return _interval(*interval.groups()) if interval else None


def _join(parts: list[Region | None], join: Any) -> Region | None:
    regions = [part for part in parts if part is not None]
    variables = {part.variable for part in regions if part.variable}
    if len(regions) < len(parts) or len(variables) > 1:
        return None
    points = join(*(part.points for part in regions))
    return Region(points, next(iter(variables), None))


def _in_braces(text: str) -> Region | None:
    r"""``x : x > 2``, ``x \in \mathbb{R} \mid x > 2``, or the elements of a finite set."""
    parts, found = split_at(text, {":", "|", "\\mid"})
    if not found:
        values = [parse_number(part) for part in split_at(text, {","})[0]]
        return None if None in values else Region(sympy.FiniteSet(*values))
    condition = parse_region(parts[1]) if len(found) == 1 else None
    named = condition and condition.variable in {None, parts[0].partition("\\in")[0].strip()}
    return Region(condition.points) if condition and named else None


def _interval(opening: str, text: str, closing: str) -> Region | None:
    ends = [parse_number(part) for part in split_at(text, {","})[0]]
    if len(ends) != 2 or None in ends:
        return None
    if all(end.is_number for end in ends) and not ends[0] < ends[1]:
        return None
    return Region(sympy.Interval(*ends, opening == "(", closing == ")"))


def _chain(parts: list[str], signs: list[str]) -> Region | None:
    """``a < x``, ``|x| < a`` and ``a < x < b``; the variable must be alone on its side."""
    halves = []
    for link in zip(parts, signs, parts[1:], strict=False):
        left, sign, right = link
        if _VARIABLE.fullmatch(right):
            left, sign, right = right, sign.translate(_MIRRORED), left
        if _VARIABLE.fullmatch(right) or not _VARIABLE.fullmatch(left):
            return None
        halves.append(_half_line(left, sign, parse_number(right)))
    return _join(halves, sympy.Intersection)


def _half_line(variable: str, sign: str, end: Any) -> Region | None:
    """``x < a``; ``|x| < a`` is ``-a < x < a``, and ``|x| > a`` is the complement of ``|x| <= a``."""
    is_open = "=" not in sign
    if end is None or (variable[0] == "|" and (sign == "!=" or not end.is_positive)):
        return None
    if variable[0] == "|":
        outside = ">" in sign
        points = sympy.Interval(-end, end, is_open != outside, is_open != outside)
        return Region(sympy.S.Reals - points if outside else points, variable[1:-1])
    if sign == "!=":
        return Region(sympy.S.Reals - sympy.FiniteSet(end), variable)
    limits = (-sympy.oo, end) if "<" in sign else (end, sympy.oo)
    return Region(sympy.Interval(*limits, is_open, is_open), variable)


def same_region(gold: Region, answer: Region) -> bool:
    """True if two sets are equal, and their variables too if both are named."""
    if gold.variable and answer.variable and gold.variable != answer.variable:
        return False
    return gold.points.symmetric_difference(answer.points) is sympy.S.EmptySet
