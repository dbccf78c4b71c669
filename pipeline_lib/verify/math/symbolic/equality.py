"""Comparison of two answers part by part, formulas by SymPy. Imported by workers only."""

import itertools
import re
from collections import Counter
from fractions import Fraction

from pipeline_lib.verify.math.exact.comparison import AmbiguousError, compare
from pipeline_lib.verify.math.exact.normal_form import TEXT, exact_value
from pipeline_lib.verify.math.exact.quantity import is_quantity, split_unit
from pipeline_lib.verify.math.exact.units import ratio
from pipeline_lib.verify.math.symbolic import grammar, structure
from pipeline_lib.verify.math.symbolic.grammar import or_none, parse_formula, parse_number
from pipeline_lib.verify.math.symbolic.structure import (
    DEFINITE,
    Container,
    Node,
    parse_region,
    parse_structure,
    same_region,
)
from pipeline_lib.verify.math.symbolic.values import same_object

_FUNCTIONS = frozenset({"lcm", "gcd", "max", "min", "sin", "cos", "tan", "log", "ln", "det", "deg"})
_DEGREES = re.compile(r"(-?\d+(?:\.\d+)?)\^\\circ")
_EQUALITY = re.compile(r"=|\\approx|\\equiv")
_ROUNDING = Fraction(1, 100)
_NO_BOUND = re.compile(r"\\ldots|\\prime|'")
"""Marks that math-verify leaves out of the bounds of a region."""


def gold_is_readable(gold: str) -> bool:
    """True if a gold can be compared with at all."""
    if any(TEXT.findall(gold)):
        return True
    return all(
        is_quantity(part)
        or grammar.parse_numeral(part)
        or grammar.parse_residue(part)[1]
        or grammar.parse_permutation(part)
        or DEFINITE.search(part)
        or "\\begin{" in part
        or any(parse_formula(reading) for reading in _readings(part))
        for part in structure.leaves(parse_structure(gold))
    )


def equal(gold: str, answer: str) -> bool | None:
    """True if two normalized answers are equal; None if the answer cannot be parsed.

    Order matters in a tuple and not in a set; a bare list is compatible with both. "And" is not
    "or". Answers of equal structure are compared part by part.

    Raises:
        AmbiguousError: only one of two readings is right.
        MemoryError: the process reached its memory limit.
    """
    if (found := _by_cycles(gold, answer)) is not None:
        return found
    gold, answer = structure.rows_as_list(gold), structure.rows_as_list(answer)
    if (found := _by_pieces(gold, answer)) is not None:
        return found
    golds, answers = structure.named_values(gold), structure.named_values(answer)
    if golds and answers and golds.keys() == answers.keys():
        return all(equal(value, answers[name]) for name, value in golds.items())
    gold, answer = structure.strip_names(*structure.without_parameter(gold, answer))
    sides = gold, answer
    if any(map(DEFINITE.search, sides)) and not any(map(_NO_BOUND.search, sides)):
        one, other = (or_none(parse_region, text) for text in sides)
        if one and other:
            return same_region(one, other)
    nodes = [parse_structure(text) for text in sides]
    return _same(_solution(*nodes), _solution(*reversed(nodes)))


def _by_pieces(gold: str, answer: str) -> bool | None:
    """True if two functions have equal pieces, in any order; None unless both are piecewise."""
    one, other = structure.pieces(gold), structure.pieces(answer)
    if bool(one) != bool(other) and re.search(r"[A-Za-z]", answer if one else gold):
        raise AmbiguousError("only one side is defined piece by piece")
    if not one or not other:
        return None
    if structure.REMAINING.fullmatch(other[-1][1]):
        one, other = other, one
    return structure.paired(one, other, _same_piece)


def _same_piece(one: tuple[str, str], other: tuple[str, str]) -> bool:
    # "Otherwise" is the last piece of its side: then one piece of the other side is left.
    same = structure.REMAINING.fullmatch(one[1]) or equal(one[1], other[1])
    return bool(same and equal(one[0], other[0]))


def _solution(node: Node, beside: Node) -> Node:
    """The only element of a set of one formula, beside a formula."""
    if isinstance(beside, Container) or isinstance(node, str) or node.joint != "set":
        return node
    only = node.items[0] if len(node.items) == 1 else node
    return only if isinstance(only, str) and only != "\\emptyset" else node


def _same(gold: Node, answer: Node) -> bool | None:
    if isinstance(gold, str) and isinstance(answer, str):
        return atoms_equal(gold, answer)
    if isinstance(gold, Container) and isinstance(answer, Container):
        return _same_containers(gold, answer)
    return False


def _same_containers(gold: Container, answer: Container) -> bool:
    joints = {gold.joint, answer.joint}
    if not joints & {"tuple", "bracket"}:
        return joints != {"and", "or"} and _same_unordered(gold, answer)
    # Round and square brackets around two numbers are a point and an interval.
    interval = "bracket" in joints and len(joints) > 1 and len(gold.items) == 2
    if "set" in joints or interval or len(gold.items) != len(answer.items):
        return False
    if not all(_same(*items) for items in zip(gold.items, answer.items, strict=True)):
        return False
    if joints == {"bracket", "tuple"}:
        raise AmbiguousError("round and square brackets around the same list")
    return True


def _same_unordered(gold: Container, answer: Container) -> bool:
    golds, answers = Counter(gold.items), Counter(answer.items)
    if len(gold.items) != len(answer.items):
        if gold.joint == answer.joint == "set" and len(golds) == len(answers):
            raise AmbiguousError("a set with an element written twice")
        return False
    # Only parts that are spelled differently are compared.
    return structure.paired((golds - answers).elements(), (answers - golds).elements(), _same)


def atoms_equal(gold: str, answer: str) -> bool | None:
    """True if two formulas without parts are equal; None if the answer cannot be parsed."""
    for rule in (compare, _by_dots, _by_base, _by_modulus, _by_chain):
        if (found := rule(gold, answer)) is not None:
            return found
    gold, gold_unit = split_unit(gold)
    answer, answer_unit = split_unit(answer)
    factor = ratio(gold_unit, answer_unit) if gold_unit and answer_unit else 1
    if factor is None:
        return False
    if gold_unit or answer_unit:
        scale = f"\\frac{{{factor.numerator}}}{{{factor.denominator}}}\\cdot"
        return atoms_equal(gold, answer if factor == 1 else f"{scale} ({answer})")
    denials = {len(grammar.NEGATED.findall(text)) for text in (gold, answer)}
    if len(denials) > 1 or _has_words(gold) or _has_words(answer):
        return False
    return _by_readings(gold, answer)


def _has_words(text: str) -> bool:
    """True if a formula contains text, which math-verify would misread."""
    words = [word.strip() for word in TEXT.findall(text)]
    return any(len(word) > 1 and word not in _FUNCTIONS | {"pi"} for word in words)


def _by_dots(gold: str, answer: str) -> bool | None:
    """An expression with an ellipsis differs from one without; two of them are ambiguous."""
    ellipses = [bool(grammar.ELLIPSIS.search(text)) for text in (gold, answer)]
    if all(ellipses):
        raise AmbiguousError("both go on in dots")
    return False if any(ellipses) else None


def _by_base(gold: str, answer: str) -> bool | None:
    one, other = grammar.parse_numeral(gold), grammar.parse_numeral(answer)
    if one is None and other is None:
        return None
    same = (str(one[0]) if one else gold) == (str(other[0]) if other else answer)
    bases = {numeral[1] for numeral in (one, other) if numeral}
    if same and (10 in bases or (one and other and len(bases) == 1)):
        return True
    if same or (one and gold.startswith(f"{answer}_")):
        raise AmbiguousError("the same number, or the same digits, in another base")
    return False


def _by_modulus(gold: str, answer: str) -> bool | None:
    (one, modulus), (other, other_modulus) = map(grammar.parse_residue, (gold, answer))
    if not modulus and not other_modulus:
        return None
    if not modulus or not other_modulus:
        if atoms_equal(one, other):
            raise AmbiguousError("only one side names a modulus")
        return False
    if modulus != other_modulus:
        return False
    if all(re.fullmatch(r"-?\d+", text) for text in (one, other, modulus)):
        return (int(one) - int(other)) % int(modulus) == 0
    return atoms_equal(one, other)


def _by_cycles(gold: str, answer: str) -> bool | None:
    one, other = grammar.parse_permutation(gold), grammar.parse_permutation(answer)
    certain = any(permutation and permutation[1] for permutation in (one, other))
    same = one and other and one[0] == other[0]
    if one and other and certain:
        return same
    if certain or (same and "," not in gold + answer):
        raise AmbiguousError("a permutation, or numbers")
    return None


def _by_chain(gold: str, answer: str) -> bool | None:
    r"""``\sqrt{2} \approx 1.414`` states two values, which must agree within rounding."""
    rounded = "\\approx" in answer
    parts = [part.strip() for part in _EQUALITY.split(answer)]
    read = [or_none(float, parse_number(p)) if rounded else exact_value(p) for p in parts]
    values = [value for value in read if value is not None]
    if values and max(values) - min(values) > _ROUNDING * max(map(abs, values)):
        return False
    if not rounded and "\\approx" not in gold:
        return None
    golds, answers = ([p.strip() for p in text.split("\\approx")] for text in (gold, answer))
    return any(atoms_equal(one, other) for one in golds for other in answers if one and other)


def _by_readings(gold: str, answer: str) -> bool | None:
    """Compare formulas; an answer with two readings is decided if both are right or both wrong."""
    golds, answers = _readings(gold, beside=answer), _readings(answer, beside=gold)
    verdicts = {_formulas_equal(*pair) for pair in itertools.product(golds, answers)}
    if len(verdicts) > 1 and True in verdicts:
        raise AmbiguousError("a product after a slash")
    found = True in verdicts or (None if None in verdicts else False)
    if found and grammar.is_reordered(gold, answer):
        raise AmbiguousError("the order of letters may matter")
    return found


def _readings(text: str, *, beside: str = "") -> tuple[str, ...]:
    # An angle in degrees beside a multiple of pi is compared in radians.
    if "\\pi" in beside and (degrees := _DEGREES.fullmatch(text)):
        text = f"{degrees[1]}\\cdot \\frac{{\\pi}}{{180}}"
    return grammar.readings(grammar.rewrite(text))


def _formulas_equal(gold: str, answer: str) -> bool | None:
    """True if two formulas are equal in any reading of the parser; None if one cannot be parsed."""
    pairs = list(itertools.product(parse_formula(gold), parse_formula(answer)))
    if not pairs:
        return None
    found = {or_none(same_object, *pair) for pair in pairs}
    if True not in found and None in found:
        raise AmbiguousError("equality is neither proved nor disproved")
    return True in found
