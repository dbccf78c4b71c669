r"""Structure of an answer: lists, sets, tuples, pieces of a function, named values, regions.

Inequalities and intervals are sets of real numbers: ``x > 2`` is ``(2, \infty)``. Imported by workers
only, so functions need not take linear time.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import sympy

from pipeline_lib.verify.math.symbolic.grammar import parse_number

MAX_DEPTH = 12
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]+|.", re.DOTALL)
_OPENING = {"(", "[", "{", "\\{", "\\langle", "\\begin", "\\lfloor", "\\lceil"}
_CLOSING = {")", "]", "}", "\\}", "\\rangle", "\\end", "\\rfloor", "\\rceil"}
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-z])")
_NAME = re.compile(
    r"\\?[A-Za-z]{1,7}(?:_\{?\w\}?)?'?|\((?: ?\\?[A-Za-z]{1,5}(?:_\{?\w\}?)? ?,?)+\)"
)
_PIECES = re.compile(
    r"(?:[^={}]{1,12}= ?)?(?:\\\{ ?)?\\begin\{(cases|array|aligned)\}(?:\{[lcr| ]*\})?(.*)\\end\{\1\}"
)
_CONDITION = re.compile(r"^(?:\\text\{ ?)?(?:if|for|when|where) ?\}?|\\text\{ ?(?:if|for|when) ?\}")
_DEFINED = re.compile(r"[a-zA-Z]\([a-z]\) ?=")
REMAINING = re.compile(r"(?:\\text\{ ?)?(?:otherwise|else(?:where)?) ?\}?")
_PARAMETER = re.compile(
    r"(.*?[^,; (])[,; ]+\(?(?:\\text\{ ?(?:,? ?(?:where|for|with|and|some|any|all|every) ?)+(integers?)? ?\})? ?([a-z]) ?"
    r"(?:\\in ?\\mathbb\{Z\}|\\text\{ ?is an(?:y)? integer ?\}|(?(2)|(?!)))\)?"
)
_LETTER = r"(?<![A-Za-z\\]){}(?![A-Za-z])"

Joint = Literal["list", "and", "or", "tuple", "bracket", "set"]
"""Kind of container, by what joins its parts."""

_JOINTS: Mapping[str, Joint] = {
    ",": "list", ";": "list", "and": "and", "\\land": "and", "\\wedge": "and",
    "or": "or", "\\lor": "or", "\\vee": "or",
}  # fmt: skip
_PAIRS: Mapping[tuple[str, str], Joint] = {
    ("(", ")"): "tuple", ("\\langle", "\\rangle"): "tuple", ("[", "]"): "bracket",
    ("\\{", "\\}"): "set",
}  # fmt: skip


class Container(NamedTuple):
    """Parts and what joins them."""

    joint: Joint
    items: tuple["Node", ...]


Node = Container | str
_Part = TypeVar("_Part")


def split_at(text: str, separators: Collection[str]) -> tuple[list[str], list[str]]:
    """The parts of ``text`` between separators outside all brackets, and those separators."""
    parts, found, depth = [""], [], 0
    for token in _TOKEN.findall(text):
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth <= 0 and token in separators:
            found.append(token)
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts], found


def parse_structure(text: str, *, depth: int = 0) -> Node:
    """Structure of a normalized answer; a text without parts is returned as it is."""
    text = text.strip()
    if depth > MAX_DEPTH:
        return text
    parts, joints = split_at(text, _JOINTS)
    if not joints:
        return _parse_brackets(text, depth=depth) or _plus_minus(text) or text
    kinds = {_JOINTS[joint] for joint in joints} - {"list"} or {"list"}
    if len(kinds) > 1:
        return text
    items: list[Node] = []
    for part in filter(None, parts):
        node = parse_structure(part, depth=depth + 1)
        # Both values of "1 \pm 2" are elements of the enclosing set.
        items += node.items if isinstance(node, Container) and node.joint == "list" else [node]
    return Container(kinds.pop(), tuple(items))


def _parse_brackets(text: str, *, depth: int) -> Node | None:
    """The container denoted by brackets around the whole text, or None."""
    tokens = _TOKEN.findall(text)
    joint = _PAIRS.get((tokens[0], tokens[-1])) if tokens else None
    depths = [*itertools.accumulate((t in _OPENING) - (t in _CLOSING) for t in tokens)]
    if joint is None or depths[-1] or 0 in depths[:-1]:
        return None
    inner = text[len(tokens[0]) : len(text) - len(tokens[-1])].strip()
    if joint == "set" and split_at(inner, {":", "\\mid", "|", "<", ">"})[1]:
        return None
    node = parse_structure(inner, depth=depth + 1)
    if joint == "set":
        if isinstance(node, Container) and node.joint in {"list", "and"}:
            return Container("set", node.items)
        return Container("set", (node,))
    if isinstance(node, Container) and split_at(inner, {",", ";"})[1]:
        return Container(joint, node.items)
    return node if isinstance(node, Container) and joint == "tuple" else None


def _plus_minus(text: str) -> Container | None:
    if "=" in text or not _PLUS_MINUS.search(text):
        return None
    above = _PLUS_MINUS.sub(lambda sign: "+" if sign[1] == "pm" else "-", text)
    below = _PLUS_MINUS.sub(lambda sign: "-" if sign[1] == "pm" else "+", text)
    return Container("list", (above.strip().removeprefix("+"), below))


def paired(
    golds: Iterable[_Part], answers: Iterable[_Part], same: Callable[[_Part, _Part], bool | None]
) -> bool:
    """True if each part of one side equals another part of the other side."""
    left = list(answers)
    for gold in golds:
        place = next((p for p, answer in enumerate(left) if same(gold, answer)), None)
        if place is None:
            return False
        del left[place]
    return not left


def leaves(node: Node) -> list[str]:
    """The formulas of a structure, in order."""
    if isinstance(node, str):
        return [node]
    return [leaf for item in node.items for leaf in leaves(item)]


def strip_names(gold: str, answer: str) -> tuple[str, str]:
    """Remove "S =" or "(x, y) =" before a container, unless both have different names."""
    (gold_name, gold_rest), (name, rest) = _split_name(gold), _split_name(answer)
    differ = gold_name and name and gold_name != name
    return (gold, answer) if differ else (gold_rest, rest)


def _split_name(text: str) -> tuple[str, str]:
    sides, _ = split_at(text, {"="})
    named = len(sides) == 2 and _NAME.fullmatch(sides[0])
    if named and isinstance(parse_structure(sides[1]), Container):
        return "".join(sides[0].split()), sides[1]
    return "", text


def pieces(text: str) -> list[tuple[str, str]] | None:
    """Values and conditions of a definition by cases; the piece of what remains ("otherwise") is last."""
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
    return sorted(pieces, key=lambda piece: bool(REMAINING.fullmatch(piece[1])))


def named_values(text: str) -> Mapping[str, str] | None:
    """The values of ``x=1, y=2`` or of ``(x, y) = (1, 2)`` by name; None for anything else."""
    parts, _ = split_at(text, {",", ";", "and", "\\land"})
    sides = [split_at(part, {"="})[0] for part in parts if part]
    if len(sides) == 1 and len(sides[0]) == 2:
        names, values = map(parse_structure, sides[0])
        if isinstance(names, str) or isinstance(values, str):
            return None
        pairs = itertools.zip_longest(names.items, values.items)
        sides = [[item for item in pair if isinstance(item, str)] for pair in pairs]
    if len(sides) < 2 or not all(len(side) == 2 and _NAME.fullmatch(side[0]) for side in sides):
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
_SET_OPERATIONS = (
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
    for separators, join in _SET_OPERATIONS:
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
