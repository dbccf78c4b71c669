r"""Answers that define: named values, functions piece by piece, parameters of a solution.

Imported by workers only.
"""

import re
from collections.abc import Callable, Mapping

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
    for value, condition in one:
        for piece in left:
            remaining = any(_REMAINING.fullmatch(text) for text in (condition, piece[1]))
            same = len(left) == 1 if remaining else equal(condition, piece[1])
            if same and equal(value, piece[0]):
                left.remove(piece)
                break
        else:
            return False
    return True


def _pieces(text: str) -> list[tuple[str, str]] | None:
    """Values and conditions of a definition by cases; that of what remains ("otherwise") is last."""
    if found := _PIECES.fullmatch(text):
        rows = [row.split("&") for row in found[2].split("\\\\")]
    else:
        # Also "1 if x > 0, 0 if x < 0".
        parts, _ = split_at(text.partition("=")[2] if _DEFINED.match(text) else text, {",", ";"})
        rows = [re.split(r" ?(?:\\text\{ ?)?\bif\b ?\}? ?", part) for part in parts]
    if any(len(row) != 2 for row in rows):
        return None
    stripped = [(row[0].strip(" ,.;"), row[1].strip(" ,.;")) for row in rows]
    pieces = [(value, _CONDITION.sub("", condition).strip()) for value, condition in stripped]
    return sorted(pieces, key=lambda piece: bool(_REMAINING.fullmatch(piece[1])))


def named_values(text: str) -> Mapping[str, str] | None:
    """The values of ``x=1, y=2`` or of ``(x, y) = (1, 2)`` by name; None for anything else."""
    parts, _ = split_at(text, {",", ";", "and", "\\land"})
    sides = [split_at(part, {"="})[0] for part in parts if part]
    if len(sides) == 1 and len(sides[0]) == 2:
        names, values = (parse_structure(side) for side in sides[0])
        if not (isinstance(names, Container) and isinstance(values, Container)):
            return None
        if len(names.items) != len(values.items):
            return None
        pairs = zip(names.items, values.items, strict=True)
        sides = [[item for item in pair if isinstance(item, str)] for pair in pairs]
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
    one, other = ({x for x in "jklmn" if re.search(_LETTER.format(x), t)} for t in (body, beside))
    return (one - other).pop() if len(one - other) == 1 else None
