r"""Structure of an answer: lists, sets, tuples, and the words that join parts; no SymPy.

Order matters in a tuple and not in a set; a bare list is compatible with both. "And" is not "or".
Answers of equal structure are compared part by part. Imported by workers only, so functions need
not take linear time.
"""

import itertools
import re
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import NamedTuple

from pipeline_lib.verification.math.exact.comparison import AmbiguousError

MAX_DEPTH = 12
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]+|.", re.DOTALL)
_OPENING = {"(", "[", "{", "\\{", "\\lbrace", "\\langle", "\\begin", "\\lfloor", "\\lceil"}
_CLOSING = {")", "]", "}", "\\}", "\\rbrace", "\\rangle", "\\end", "\\rfloor", "\\rceil"}
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-z])")
NAME = re.compile(r"\\?[A-Za-z]{1,7}(?:_\{?\w\}?)?'?|\((?: ?\\?[A-Za-z]{1,5}(?:_\{?\w\}?)? ?,?)+\)")


class Joint(StrEnum):
    """Kind of container, by what joins its parts."""

    LIST = "list"
    AND = "and"
    OR = "or"
    TUPLE = "tuple"
    BRACKET = "bracket"
    SET = "set"


_JOINTS = {
    ",": Joint.LIST, ";": Joint.LIST, "and": Joint.AND, "\\land": Joint.AND, "\\wedge": Joint.AND,
    "or": Joint.OR, "\\lor": Joint.OR, "\\vee": Joint.OR,
}  # fmt: skip
_UNORDERED = frozenset({Joint.LIST, Joint.AND, Joint.OR, Joint.SET})
_PAIRS = {("(", ")"): Joint.TUPLE, ("\\langle", "\\rangle"): Joint.TUPLE, ("[", "]"): Joint.BRACKET}


class Container(NamedTuple):
    """Parts and what joins them."""

    joint: Joint
    items: tuple["Node", ...]


Node = Container | str
AtomsEqual = Callable[[str, str], bool | None]


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
    kinds = {_JOINTS[joint] for joint in joints} - {Joint.LIST} or {Joint.LIST}
    if len(kinds) > 1:
        return text
    return Container(kinds.pop(), _items([part for part in parts if part], depth))


def _items(parts: Sequence[str], depth: int) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for part in parts:
        # Both values of "1 \pm 2" are elements of the enclosing set.
        both = None if _parse_brackets(part, depth=depth) else _plus_minus(part)
        nodes += both.items if both else [parse_structure(part, depth=depth + 1)]
    return tuple(nodes)


def _parse_brackets(text: str, *, depth: int) -> Node | None:
    """The container denoted by brackets around the whole text, or None."""
    tokens = _TOKEN.findall(text)
    if len(tokens) < 2 or not _match_each_other(tokens):
        return None
    opening, closing = tokens[0], tokens[-1]
    inner = text[len(opening) : len(text) - len(closing)].strip()
    if opening in {"\\{", "\\lbrace"} and closing in {"\\}", "\\rbrace"}:
        if split_at(inner, {":", "\\mid", "|", "<", ">"})[1]:
            return None
        node = parse_structure(inner, depth=depth + 1)
        plain = isinstance(node, Container) and node.joint in {Joint.LIST, Joint.AND}
        listed = plain and bool(split_at(inner, _JOINTS)[1])
        spread = plain and not listed and _parse_brackets(inner, depth=depth) is None
        items = node.items if (listed or spread) and isinstance(node, Container) else (node,)
        return Container(Joint.SET, items)
    joint = _PAIRS.get((opening, closing))
    if joint is None:
        return None
    node = parse_structure(inner, depth=depth + 1)
    if isinstance(node, Container) and split_at(inner, {",", ";"})[1]:
        return Container(joint, node.items)
    return node if isinstance(node, Container) and joint is Joint.TUPLE else None


def _match_each_other(tokens: Sequence[str]) -> bool:
    steps = [(token in _OPENING) - (token in _CLOSING) for token in tokens]
    depths = [*itertools.accumulate(steps)]
    return steps[0] == 1 and steps[-1] == -1 and 0 not in depths[:-1] and not depths[-1]


def _plus_minus(text: str) -> Container | None:
    if "=" in text or not _PLUS_MINUS.search(text):
        return None
    above = _PLUS_MINUS.sub(lambda sign: "+" if sign[1] == "pm" else "-", text)
    below = _PLUS_MINUS.sub(lambda sign: "-" if sign[1] == "pm" else "+", text)
    return Container(Joint.LIST, (above.strip().removeprefix("+"), below))


def leaves(node: Node) -> list[str]:
    """The formulas of a structure, in order."""
    if isinstance(node, str):
        return [node]
    return [leaf for item in node.items for leaf in leaves(item)]


def strip_names(gold: str, answer: str) -> tuple[str, str]:
    """Remove "S =" or "(x, y) =" before a container, unless both have different names."""
    (gold_name, gold_rest), (name, rest) = _split_name(gold), _split_name(answer)
    if gold_name and name and gold_name != name:
        return gold, answer
    return gold_rest if gold_name else gold, rest if name else answer


def _split_name(text: str) -> tuple[str, str]:
    sides, equalities = split_at(text, {"="})
    if len(equalities) != 1 or not NAME.fullmatch(sides[0]):
        return "", text
    named = isinstance(parse_structure(sides[1]), Container)
    return ("".join(sides[0].split()), sides[1]) if named else ("", text)


def same_answer(gold: Node, answer: Node, atoms_equal: AtomsEqual) -> bool | None:
    """True if two answers are equal; a set of one solution equals that solution.

    Raises:
        AmbiguousError: only one of two readings is right.
    """
    return _same(_solution(gold, beside=answer), _solution(answer, beside=gold), atoms_equal)


def _solution(node: Node, *, beside: Node) -> Node:
    if isinstance(beside, Container) or isinstance(node, str) or node.joint is not Joint.SET:
        return node
    only = node.items[0] if len(node.items) == 1 else node
    return only if isinstance(only, str) and only != "\\emptyset" else node


def _same(gold: Node, answer: Node, atoms_equal: AtomsEqual) -> bool | None:
    if isinstance(gold, str) and isinstance(answer, str):
        return atoms_equal(gold, answer)
    if isinstance(gold, Container) and isinstance(answer, Container):
        return _same_containers(gold, answer, atoms_equal)
    return False


def _same_containers(gold: Container, answer: Container, atoms_equal: AtomsEqual) -> bool | None:
    joints = {gold.joint, answer.joint}
    if joints <= _UNORDERED:
        return joints != {Joint.AND, Joint.OR} and _same_unordered(gold, answer, atoms_equal)
    # Round and square brackets around two numbers are a point and an interval.
    interval = Joint.BRACKET in joints and len(joints) > 1 and len(gold.items) == 2
    if Joint.SET in joints or interval or len(gold.items) != len(answer.items):
        return False
    found = [_same(*items, atoms_equal) for items in zip(gold.items, answer.items, strict=True)]
    if not all(found):
        return False
    if joints == {Joint.BRACKET, Joint.TUPLE}:
        raise AmbiguousError("round and square brackets around the same list")
    return True


def _same_unordered(gold: Container, answer: Container, atoms_equal: AtomsEqual) -> bool:
    if len(gold.items) != len(answer.items):
        sets = gold.joint is answer.joint is Joint.SET
        if sets and len(set(gold.items)) == len(set(answer.items)):
            raise AmbiguousError("a set with an element written twice")
        return False
    left = list(answer.items)
    for item in sorted(gold.items, key=lambda item: item not in left):
        if item in left:
            left.remove(item)
            continue
        place = next((p for p, other in enumerate(left) if _same(item, other, atoms_equal)), None)
        if place is None:
            return False
        del left[place]
    return True
