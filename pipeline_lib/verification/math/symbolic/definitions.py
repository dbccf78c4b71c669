r"""Answers that define: named values, functions piece by piece, parameters of a solution.

Imported by workers only.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from pipeline_lib.verification.math.exact.comparison import AmbiguousError
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
_DEFINED = re.compile(r"[a-zA-Z]\([a-z]\) ?=")
_REMAINING = re.compile(r"(?:\\text\{ ?)?(?:otherwise|else(?:where)?) ?\}?")
_PARAMETER = re.compile(
    r"(.*?[^,; (])[,; ]+\(?(?:\\text\{ ?(?:,? ?(?:where|for|with|and|some|any|all|every) ?)+(integers?)? ?\})? ?([a-z]) ?"
    r"(?:\\in ?\\mathbb\{Z\}|\\text\{ ?is an(?:y)? integer ?\}|(?(2)|(?!)))\)?"
)
_LETTER = r"(?<![A-Za-z\\]){}(?![A-Za-z])"


def by_pieces(gold: str, answer: str, equal: TextsEqual) -> bool | None:
    """True if two functions have equal pieces, in any order; None unless both are piecewise.

    Raises:
        AmbiguousError: one is, and the other is a formula.
    """
    one, left = _pieces(gold), _pieces(answer)
    if bool(one) != bool(left) and re.search(r"[A-Za-z]", answer if one else gold):
        raise AmbiguousError("only one side is defined piece by piece")
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
    rows = [row.split("&") for row in found[2].split("\\\\")] if found else _conditional(text)
    if not rows or any(len(row) != 2 for row in rows):
        return None
    stripped = [(row[0].strip(" ,.;"), row[1].strip(" ,.;")) for row in rows]
    return [(value, _CONDITION.sub("", condition).strip()) for value, condition in stripped]


def _conditional(text: str) -> list[list[str]]:
    """Value and condition of ``1 if x > 0, 0 if x < 0``."""
    parts, _ = split_at(
        text.partition("=")[2] if _DEFINED.match(text) else text, frozenset({",", ";"})
    )
    return [re.split(r" ?(?:\\text\{ ?)?\bif\b ?\}? ?", part) for part in parts]


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


def rows_as_list(text: str) -> str:
    """Rows without conditions in a brace are a list: a system of equations."""
    found = _PIECES.fullmatch(text)
    return ", ".join(found[2].split("\\\\")) if found and "&" not in found[2] else text


def without_parameter(gold: str, answer: str) -> tuple[str, str]:
    r"""Remove ", k \in \mathbb{Z}"; the letter of the answer's parameter becomes the gold's."""
    one, other = _PARAMETER.fullmatch(gold), _PARAMETER.fullmatch(answer)
    if one is None and other is None:
        return gold, answer
    body, answer_body = one[1] if one else gold, other[1] if other else answer
    letter = one[3] if one else _only_new_letter(gold, answer_body)
    own = other[3] if other else _only_new_letter(answer, body)
    if letter and own and letter != own and letter not in answer_body:
        answer_body = re.sub(_LETTER.format(own), letter, answer_body)
    return body, answer_body


def _only_new_letter(body: str, beside: str) -> str | None:
    """The single letter of an integer that one text has and the other has not."""
    new = {letter for letter in "jklmn" if re.search(_LETTER.format(letter), body)}
    new -= {letter for letter in "jklmn" if re.search(_LETTER.format(letter), beside)}
    return new.pop() if len(new) == 1 else None
