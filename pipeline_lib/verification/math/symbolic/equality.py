"""Comparison of two answers part by part, formulas by SymPy. Imported by workers only."""

import itertools
import re

from pipeline_lib.verification.math.exact.comparison import AmbiguousError, compare
from pipeline_lib.verification.math.exact.normal_form import TEXT
from pipeline_lib.verification.math.exact.quantity import is_quantity, tail_splits
from pipeline_lib.verification.math.exact.units import ratio
from pipeline_lib.verification.math.symbolic import marks
from pipeline_lib.verification.math.symbolic.definitions import (
    by_pieces,
    named_values,
    rows_as_list,
    without_parameter,
)
from pipeline_lib.verification.math.symbolic.grammar import or_none, parse_formula, parse_number
from pipeline_lib.verification.math.symbolic.regions import denotes_set, parse_region, same_region
from pipeline_lib.verification.math.symbolic.structure import (
    leaves,
    parse_structure,
    same_answer,
    strip_names,
)
from pipeline_lib.verification.math.symbolic.values import same_object

_FUNCTIONS = frozenset({"lcm", "gcd", "max", "min", "sin", "cos", "tan", "log", "ln", "det", "deg"})
_DEGREES = re.compile(r"(-?\d+(?:\.\d+)?)\^\\circ")
_ROUNDING = 0.01


def gold_is_readable(gold: str) -> bool:
    """True if a gold can be compared with at all."""
    if any(TEXT.findall(gold)):
        return True
    return all(
        is_quantity(part)
        or marks.parse_numeral(part)
        or marks.parse_residue(part)
        or marks.parse_permutation(part)
        or denotes_set(part)
        or "\\begin{" in part
        or any(parse_formula(reading) for reading in _readings(part))
        for part in leaves(parse_structure(gold))
    )


def equal(gold: str, answer: str) -> bool | None:
    """True if two normalized answers are equal; None if the answer cannot be parsed.

    Raises:
        AmbiguousError: only one of two readings is right.
        MemoryError: the process reached its memory limit.
    """
    if (found := _by_cycles(gold, answer)) is not None:
        return found
    gold, answer = rows_as_list(gold), rows_as_list(answer)
    if (found := by_pieces(gold, answer, equal)) is not None:
        return found
    golds, answers = named_values(gold), named_values(answer)
    if golds and answers and golds.keys() == answers.keys():
        return all(equal(value, answers[name]) for name, value in golds.items())
    gold, answer = strip_names(*without_parameter(gold, answer))
    if denotes_set(gold) or denotes_set(answer):
        one, other = (or_none(parse_region, text) for text in (gold, answer))
        if one and other:
            return same_region(one, other)
    return same_answer(parse_structure(gold), parse_structure(answer), atoms_equal)


def atoms_equal(gold: str, answer: str) -> bool | None:
    """True if two formulas without parts are equal; None if the answer cannot be parsed."""
    for rule in (compare, _by_dots, _by_base, _by_modulus, _by_approximation):
        if (found := rule(gold, answer)) is not None:
            return found
    gold, gold_unit = next(tail_splits(gold), (gold, None))
    answer, answer_unit = next(tail_splits(answer), (answer, None))
    factor = ratio(gold_unit, answer_unit) if gold_unit and answer_unit else 1
    if factor is None:
        return False
    if gold_unit or answer_unit:
        scale = f"\\frac{{{factor.numerator}}}{{{factor.denominator}}}\\cdot"
        return atoms_equal(gold, answer if factor == 1 else f"{scale} ({answer})")
    denials = {len(marks.NEGATED.findall(text)) for text in (gold, answer)}
    if len(denials) > 1 or _has_words(gold) or _has_words(answer):
        return False
    return _by_readings(gold, answer)


def _has_words(text: str) -> bool:
    """True if a formula contains text, which math-verify would misread."""
    words = [word.strip() for word in TEXT.findall(text)]
    return any(len(word) > 1 and word not in _FUNCTIONS | {"pi"} for word in words)


def _by_dots(gold: str, answer: str) -> bool | None:
    """An expression with an ellipsis differs from one without; two of them are ambiguous."""
    ellipses = [bool(marks.ELLIPSIS.search(text)) for text in (gold, answer)]
    if all(ellipses):
        raise AmbiguousError("both go on in dots")
    return False if any(ellipses) else None


def _by_base(gold: str, answer: str) -> bool | None:
    numerals = [marks.parse_numeral(text) for text in (gold, answer)]
    bases = {numeral[1] for numeral in numerals if numeral}
    if not bases:
        return None
    one, other = (
        str(numeral[0]) if numeral else text
        for numeral, text in zip(numerals, (gold, answer), strict=True)
    )
    if all(numerals) and len(bases) == 1:
        return one == other
    if one != other:
        if numerals[0] and gold.startswith(f"{answer}_"):
            raise AmbiguousError("the answer leaves out the base")
        return False
    if 10 in bases:
        return True
    raise AmbiguousError("the same number in another base")


def _by_modulus(gold: str, answer: str) -> bool | None:
    residues = [marks.parse_residue(text) for text in (gold, answer)]
    if not any(residues):
        return None
    (one, modulus), (other, other_modulus) = (
        residue or (marks.last_side(text), "")
        for residue, text in zip(residues, (gold, answer), strict=True)
    )
    if not all(residues):
        if atoms_equal(one, other):
            raise AmbiguousError("only one side names a modulus")
        return False
    if modulus != other_modulus:
        return False
    if all(re.fullmatch(r"-?\d+", text) for text in (one, other, modulus)):
        return (int(one) - int(other)) % int(modulus) == 0
    return atoms_equal(one, other)


def _by_cycles(gold: str, answer: str) -> bool | None:
    one, other = marks.parse_permutation(gold), marks.parse_permutation(answer)
    certain = any(permutation and permutation[1] for permutation in (one, other))
    same = one and other and one[0] == other[0]
    if one and other and certain:
        return same
    if certain or (same and "," not in gold + answer):
        raise AmbiguousError("a permutation, or numbers")
    return None


def _by_approximation(gold: str, answer: str) -> bool | None:
    r"""``\sqrt{2} \approx 1.414`` states two values, which must agree within rounding."""
    if "\\approx" not in gold and "\\approx" not in answer:
        return None
    golds, answers = ([p.strip() for p in text.split("\\approx")] for text in (gold, answer))
    values = [or_none(_value, part) for part in answers]
    known = [value for value in values if value is not None]
    if known and max(known) - min(known) > _ROUNDING * max(map(abs, known)):
        return False
    return any(atoms_equal(one, other) for one in golds for other in answers if one and other)


def _value(text: str) -> float:
    return float(parse_number(text.rpartition("=")[2]))


def _by_readings(gold: str, answer: str) -> bool | None:
    """Compare formulas; an answer with two readings is decided if both are right or both wrong."""
    golds, answers = _readings(gold, beside=answer), _readings(answer, beside=gold)
    verdicts = {_formulas_equal(*pair) for pair in itertools.product(golds, answers)}
    if len(verdicts) > 1 and True in verdicts:
        raise AmbiguousError("a product after a slash")
    found = True in verdicts or (None if None in verdicts else False)
    if found and marks.is_reordered(gold, answer):
        raise AmbiguousError("the order of letters may matter")
    return found


def _readings(text: str, *, beside: str = "") -> tuple[str, ...]:
    # An angle in degrees beside a multiple of pi is compared in radians.
    if "\\pi" in beside and (degrees := _DEGREES.fullmatch(text)):
        text = f"{degrees[1]}\\cdot \\frac{{\\pi}}{{180}}"
    return marks.readings(marks.rewrite(text))


def _formulas_equal(gold: str, answer: str) -> bool | None:
    """True if two formulas are equal in any reading of the parser; None if one cannot be parsed.

    Raises:
        AmbiguousError: equality is neither proved nor disproved.
    """
    pairs = list(itertools.product(parse_formula(gold), parse_formula(answer)))
    if not pairs:
        return None
    found = {or_none(same_object, *pair) for pair in pairs}
    if True not in found and None in found:
        raise AmbiguousError("equality is neither proved nor disproved")
    return True in found
