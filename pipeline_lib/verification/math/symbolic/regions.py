r"""Inequalities and intervals as sets of real numbers: ``x > 2`` is ``(2, \infty)``.

Imported by workers only.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from pipeline_lib.verification.math.symbolic.structure import split_at

ReadNumber = Callable[[str], Any]
"""The SymPy value of an end point, or None."""

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
_VARIABLE = re.compile(r"\\?[A-Za-z]+(?:_\{?\w\}?)?|[a-z]\(x\)")
_ABSOLUTE = re.compile(r"\|(\\?[A-Za-z]+)\|")
_REALS = re.compile(r"\\mathbb ?\{? ?R ?\}?|\\Reals|\(-\\infty, ?\+?\\infty\)")
_BRACES = re.compile(r"^\\(?:\{|lbrace)|\\(?:\}|rbrace)$")
_INTERVAL = re.compile(r"([(\[])(.*)([)\]])", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A set of real numbers, and the variable that is stated to lie in it."""

    points: sympy.Set
    variable: str | None


def denotes_set(text: str) -> bool:
    """True if a text can only denote a set of real numbers; ``(1, 2)`` may be a point."""
    return _DEFINITE.search(text) is not None


def parse_region(text: str, read_number: ReadNumber) -> Region | None:
    """The set that a normalized text describes; None if it describes none unambiguously."""
    text = text.strip()
    for separators, join in (
        (frozenset({"or", "\\lor", "\\vee", "\\cup"}), sympy.Union),
        (frozenset({"and", "\\land", "\\wedge", "\\cap"}), sympy.Intersection),
    ):
        parts, found = split_at(text, separators)
        if found:
            return _join([parse_region(part, read_number) for part in parts], join)
    parts, found = split_at(text, frozenset({"\\in"}))
    if found:
        inner = parse_region(parts[1], read_number) if len(parts) == 2 else None
        named = inner is not None and _VARIABLE.fullmatch(parts[0])
        return Region(points=inner.points, variable=parts[0]) if inner and named else None
    parts, found = split_at(text, frozenset({"\\setminus", "\\backslash"}))
    if len(found) == 1:
        whole, removed = parse_region(parts[0], read_number), _finite_set(parts[1], read_number)
        return whole and removed and Region(points=whole.points - removed, variable=whole.variable)
    return _single(text, read_number)


def _join(parts: list[Region | None], join: Any) -> Region | None:
    regions = [part for part in parts if part is not None]
    variables = {part.variable for part in regions if part.variable}
    if len(regions) < len(parts) or len(variables) > 1:
        return None
    points = join(*(part.points for part in regions))
    return Region(points=points, variable=next(iter(variables), None))


def _single(text: str, read_number: ReadNumber) -> Region | None:
    if _REALS.fullmatch(text) or text == "\\emptyset":
        points = sympy.S.EmptySet if text == "\\emptyset" else sympy.S.Reals
        return Region(points=points, variable=None)
    if text.startswith(("\\{", "\\lbrace")) and text.endswith(("\\}", "\\rbrace")):
        return _set_builder(text, read_number)
    parts, relations = split_at(text, frozenset(_RELATIONS))
    if len(relations) == 1 and (modulus := _ABSOLUTE.fullmatch(parts[0])):
        return _around_zero(modulus[1], _RELATIONS[relations[0]], _end(parts[1], read_number))
    if relations:
        return _chain(parts, [_RELATIONS[sign] for sign in relations], read_number)
    found = _INTERVAL.fullmatch(text)
    ends = split_at(found[2], frozenset({","}))[0] if found else []
    if found is None or len(ends) != 2:
        return None
    return _interval(ends, found[1] + found[3], read_number)


def _set_builder(text: str, read_number: ReadNumber) -> Region | None:
    r"""``\{x : x > 2\}``, ``\{x \in \mathbb{R} \mid x > 2\}``, or a finite set in a union."""
    parts, found = split_at(_BRACES.sub("", text), frozenset({":", "|", "\\mid"}))
    if not found:
        points = _finite_set(text, read_number)
        return Region(points=points, variable=None) if points is not None else None
    if len(found) > 1:
        return None
    name = parts[0].partition("\\in")[0].strip()
    condition = parse_region(parts[1], read_number)
    if condition is None or condition.variable not in {None, name}:
        return None
    return Region(points=condition.points, variable=None)


def _finite_set(text: str, read_number: ReadNumber) -> sympy.Set | None:
    parts, _ = split_at(_BRACES.sub("", text.strip()), frozenset({","}))
    values = [read_number(part) for part in parts]
    return None if any(value is None for value in values) else sympy.FiniteSet(*values)


def _interval(ends: list[str], brackets: str, read_number: ReadNumber) -> Region | None:
    left, right = (_end(end, read_number) for end in ends)
    if left is None or right is None or (left.is_number and right.is_number and not left < right):
        return None
    points = sympy.Interval(left, right, brackets[0] == "(", brackets[1] == ")")
    return Region(points=points, variable=None)


def _end(text: str, read_number: ReadNumber) -> Any:
    infinite = re.fullmatch(r"([-+]?) ?\\infty", text)
    if infinite:
        return -sympy.oo if infinite[1] == "-" else sympy.oo
    value = read_number(text)
    return value if isinstance(value, sympy.Expr) else None


def _chain(parts: list[str], signs: list[str], read_number: ReadNumber) -> Region | None:
    """``a < x``, ``x < a`` and ``a < x < b``; the variable must be alone on its side."""
    named = [bool(_VARIABLE.fullmatch(part)) and part != "\\pi" for part in parts]
    if len(parts) == 2 and named[1] and not named[0]:
        parts, signs, named = parts[::-1], [_FLIPPED[signs[0]]], named[::-1]
    if len(parts) == 2 and named[0] and not named[1]:
        return _half_line(parts[0], signs[0], _end(parts[1], read_number))
    if len(parts) != 3 or not named[1] or named[0] or named[2]:
        return None
    below = _half_line(parts[1], _FLIPPED[signs[0]], _end(parts[0], read_number))
    above = _half_line(parts[1], signs[1], _end(parts[2], read_number))
    return _join([below, above], sympy.Intersection)


def _around_zero(variable: str, sign: str, end: Any) -> Region | None:
    """``|x| < a`` is ``-a < x < a``; ``|x| > a`` is its complement."""
    if end is None or not end.is_positive:
        return None
    joined = sympy.Intersection if sign in {"<", "<="} else sympy.Union
    halves = [_half_line(variable, sign, end), _half_line(variable, _FLIPPED[sign], -end)]
    return None if sign == "!=" else _join(halves, joined)


def _half_line(variable: str, sign: str, end: Any) -> Region | None:
    if end is None:
        return None
    if sign == "!=":
        return Region(points=sympy.S.Reals - sympy.FiniteSet(end), variable=variable)
    ends = (-sympy.oo, end) if "<" in sign else (end, sympy.oo)
    is_open = "=" not in sign
    return Region(points=sympy.Interval(*ends, is_open, is_open), variable=variable)


def same_region(gold: Region, answer: Region) -> bool:
    """True if two sets are equal, and their variables too if both are named."""
    if gold.variable and answer.variable and gold.variable != answer.variable:
        return False
    if gold.points == answer.points:
        return True
    return gold.points.symmetric_difference(answer.points) is sympy.S.EmptySet
