r"""Inequalities and intervals as sets of real numbers: ``x > 2`` is ``(2, \infty)``.

Imported by workers only.
"""

import re
from typing import Any, NamedTuple

import sympy

from pipeline_lib.verification.math.symbolic.grammar import parse_formula
from pipeline_lib.verification.math.symbolic.marks import ELLIPSIS, rewrite
from pipeline_lib.verification.math.symbolic.structure import split_at
from pipeline_lib.verification.math.symbolic.values import is_name, links

DEFINITE = re.compile(
    r"\\infty|\\cup|\\cap|\\setminus|\\in(?![a-z])|\\mathbb|[<>]|\\(?:le|leq|leqslant|ge|geq|geqslant|lt"
    r"|gt|neq?)(?![a-z])"
    r"|\[[^\[\]()]*\)$|^\([^\[\]()]*\]$|\\mid|\{[^{}]*:"
)
"""In texts that can only denote a set of real numbers; ``(1, 2)`` may be a point."""
_JOINTS = (
    ({"or", "\\lor", "\\vee", "\\cup"}, sympy.Union),
    ({"and", "\\land", "\\wedge", "\\cap"}, sympy.Intersection),
)
_SETS = sympy.Interval | sympy.Union | sympy.Intersection | sympy.Complement | sympy.FiniteSet


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
    if text.startswith("\\{") and text.endswith("\\}"):
        parts, found = split_at(text[2:-2], {":", "|", "\\mid"})
        if found:
            return _such_that(*parts) if len(parts) == 2 else None
    if text == "\\emptyset":
        return Region(sympy.S.EmptySet)
    parsed = None if ELLIPSIS.search(text) else next(iter(parse_formula(rewrite(text))), None)
    variable = None
    if isinstance(parsed, sympy.Eq) and _is_variable(parsed.lhs):
        variable, parsed = str(parsed.lhs), parsed.rhs
    if isinstance(parsed, _SETS):
        items = [item for finite in parsed.atoms(sympy.FiniteSet) for item in finite]
        # A bare list is parsed as a set, too.
        listed = "\\{" in text and all(isinstance(item, sympy.Expr) for item in items)
        return Region(parsed, variable) if listed or not items else None
    chain = links(parsed)
    return _join([_half_line(link) for link in chain], sympy.Intersection) if chain else None


def _join(parts: list[Region | None], join: Any) -> Region | None:
    regions = [part for part in parts if part is not None]
    variables = {part.variable for part in regions if part.variable}
    if len(regions) < len(parts) or len(variables) > 1:
        return None
    points = join(*(part.points for part in regions))
    return Region(points, next(iter(variables), None))


def _such_that(element: str, condition: str) -> Region | None:
    r"""The set ``\{x : x > 2\}`` or ``\{x \in \mathbb{R} \mid x > 2\}``."""
    region = parse_region(condition)
    named = region and region.variable in {None, element.partition("\\in")[0].strip(" \\")}
    return Region(region.points) if region and named else None


def _is_variable(side: Any) -> bool:
    """True for ``x``, ``f(x)``, ``AB`` and their absolute values."""
    bare = side.args[0] if isinstance(side, sympy.Abs) else side
    return all(map(is_name, bare.args if isinstance(bare, sympy.Mul) else [bare]))


def _half_line(link: Any) -> Region | None:
    """``x < a``; ``|x| < a`` is ``-a < x < a``, and ``|x| > a`` is the complement of ``|x| <= a``."""
    link = link.reversed if _is_variable(link.rhs) else link
    name, sign, end = link.lhs, link.rel_op, link.rhs
    if not _is_variable(name) or _is_variable(end) or sign == "==":
        return None
    is_open = "=" not in sign
    if isinstance(name, sympy.Abs):
        if sign == "!=" or not end.is_positive:
            return None
        outside = ">" in sign
        points = sympy.Interval(-end, end, is_open != outside, is_open != outside)
        return Region(sympy.S.Reals - points if outside else points, str(name.args[0]))
    if sign == "!=":
        return Region(sympy.S.Reals - sympy.FiniteSet(end), str(name))
    limits = (-sympy.oo, end) if "<" in sign else (end, sympy.oo)
    return Region(sympy.Interval(*limits, is_open, is_open), str(name))


def same_region(gold: Region, answer: Region) -> bool:
    """True if two sets are equal, and their variables too if both are named."""
    if gold.variable and answer.variable and gold.variable != answer.variable:
        return False
    return gold.points.symmetric_difference(answer.points) is sympy.S.EmptySet
