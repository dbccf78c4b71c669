r"""Answers that define: named values, functions piece by piece, parameters of a solution.

Imported by workers only.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from pipeline_lib.verification.math.symbolic.structure import (
    NAME,
    Container,
    parse_structure,
    split_at,
)

TextsEqual = Callable[[str, str], bool | None]

_PIECES = re.compile(
    r"(?:[^={}]{1,12}= ?)?(?:\\\{ ?)?\\begin\{(cases|array|aligned)\}(?:\{[lcr| ]*\})?(.*)\\end\{\1\}"
)
_CONDITION = re.compile(r"^(?:\\text\{ ?)?(?:if|for|when|where) ?\}?|\\text\{ ?(?:if|for|when) ?\}")
_REMAINING = re.compile(r"(?:\\text\{ ?)?(?:otherwise|else(?:where)?) ?\}?")
_PARAMETER = re.compile(
    r"(.*?[^,; ])[,; ]+(?:\\text\{ ?(?:,? ?(?:where|for|with|and|some|any|all) ?)+\})? ?([a-z]) ?"
    r"(?:\\in ?\\mathbb\{Z\}|\\text\{ ?is an(?:y)? integer ?\})"
)


def by_pieces(gold: str, answer: str, equal: TextsEqual) -> bool | None:
    """True if two functions have equal pieces, in any order; None unless both are piecewise."""
    one, left = _pieces(gold), _pieces(answer)
    if not one or not left:
        return None
    if len(one) != len(left):
        return False
    # What is named "otherwise" is compared last, with the condition that is left.
    for value, condition in sorted(one, key=lambda piece: bool(_REMAINING.fullmatch(piece[1]))):
        others = sorted(left, key=lambda piece: bool(_REMAINING.fullmatch(piece[1])))
        match = next((o for o in others if _same_piece(value, condition, o, left, equal)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_piece(
    value: str, condition: str, other: tuple[str, str], left: Sequence[object], equal: TextsEqual
) -> bool:
    remaining = _REMAINING.fullmatch(condition) or _REMAINING.fullmatch(other[1])
    conditions = len(left) == 1 if remaining else equal(condition, other[1])
    return bool(conditions and equal(value, other[0]))


def _pieces(text: str) -> list[tuple[str, str]] | None:
    """Value and condition of each row of a definition by cases."""
    found = _PIECES.fullmatch(text)
    rows = [row.split("&") for row in found[2].split("\\\\")] if found else []
    if not rows or any(len(row) != 2 for row in rows):
        return None
    stripped = [(row[0].strip(" ,.;"), row[1].strip(" ,.;")) for row in rows]
    return [(value, _CONDITION.sub("", condition).strip()) for value, condition in stripped]


def named_values(text: str) -> Mapping[str, str] | None:
    """The values of ``x=1, y=2`` or of ``(x, y) = (1, 2)`` by name; None for anything else."""
    parts, _ = split_at(text, frozenset({",", ";", "and", "\\land"}))
    sides = [split_at(part, frozenset({"="}))[0] for part in parts if part]
    if len(sides) == 1 and len(sides[0]) == 2:
        names, values = (parse_structure(side) for side in sides[0])
        if not (isinstance(names, Container) and isinstance(values, Container)):
            return None
        items = list(zip(names.items, values.items, strict=False))
        sides = [
            [name, value]
            for name, value in items
            if isinstance(name, str) and isinstance(value, str)
        ]
        if not len(sides) == len(names.items) == len(values.items):
            return None
    if len(sides) < 2 or not all(len(side) == 2 and NAME.fullmatch(side[0]) for side in sides):
        return None
    named = {"".join(name.split()): value for name, value in sides}
    return named if len(named) == len(sides) else None


def without_parameter(gold: str, answer: str) -> tuple[str, str]:
    r"""Remove ", k \in \mathbb{Z}"; the letter of the answer's parameter becomes the gold's."""
    one, other = _PARAMETER.fullmatch(gold), _PARAMETER.fullmatch(answer)
    if one and other and one[2] != other[2] and one[2] not in other[1]:
        letter = rf"(?<![A-Za-z\\]){other[2]}(?![A-Za-z])|(?<=\\pi ){other[2]}(?![A-Za-z])"
        return one[1], re.sub(letter, one[2], other[1])
    return one[1] if one else gold, other[1] if other else answer
