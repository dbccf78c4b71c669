"""Equality of parsed formulas, equations, tuples and matrices, by proof. Imported by workers only.

Formulas are different if their values are proven to differ at one point. They are equal if their
difference is zero by algebra, or by a ball smaller than the least value that it could have. What can
neither be proved nor disproved is undecided: None.
"""

import itertools
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import flint
import sympy
from latex2sympy2_extended.logic import And
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from pipeline_lib.verify.math.exact.comparison import MIN_ROUNDED_DECIMALS, decimals
from pipeline_lib.verify.math.symbolic.balls import Point, ball, separation_bits
from pipeline_lib.verify.math.symbolic.structure import paired

_BITS = (64, 256, 1024, 4096, 16_384, 65_536)
_PROOF_BITS = 256
"""Formulas that agree to this precision are worth a proof by algebra."""
_POINTS = 1009
_SCALES = (1, 3, 40, -1, -40)
_CONSTANT = re.compile(r"[A-DKck](?:_\{?\d\}?)?")
_MAX_CONSTANTS = 3
_UNDEFINED, _INFINITE = {sympy.zoo, sympy.nan}, {sympy.oo, -sympy.oo}
_GREATER = {sympy.StrictGreaterThan, sympy.GreaterThan}


def same_object(gold: Any, answer: Any) -> bool | None:
    """True if two parsed objects are equal; None if that is undecided."""
    if _links(gold) or _links(answer):
        return _same_relation(gold, answer)
    if isinstance(gold, sympy.MatrixBase) and isinstance(answer, sympy.MatrixBase):
        return gold.shape == answer.shape and _all_same(gold.flat(), answer.flat())
    if isinstance(gold, sympy.Expr) and isinstance(answer, sympy.Expr):
        return same_value(gold, answer)
    if isinstance(gold, sympy.Set) and isinstance(answer, sympy.Set):
        return bool(gold.symmetric_difference(answer).is_empty) or None
    return bool(gold == answer)


def _all_same(ones: Iterable[Any], others: Iterable[Any]) -> bool | None:
    verdicts = set(map(same_object, ones, others))
    return False if False in verdicts else None if None in verdicts else True


def same_value(left: sympy.Expr, right: sympy.Expr) -> bool | None:
    """True if two formulas are equal for all values of their symbols; None if undecided.

    A decimal of six places or more is equal to what it is the rounding of.
    """
    if left == right:
        return True
    if not _is_defined(left):
        return None
    if not _is_defined(right):
        return False
    if _INFINITE & {left, right}:
        others = {left, right} - _INFINITE
        return None if any(other.is_finite is not True for other in others) else False
    difference = _named(left - right)
    symbols = sorted(difference.free_symbols, key=str)
    if symbols:
        found = _is_zero_function(difference, symbols)
        renamed = _with_constants_renamed(left, right) if found is False else ()
        return any(same_value(left, other) for other in renamed) or found
    return _is_rounded(left, right) or _is_rounded(right, left) or _is_zero_number(difference)


def _is_defined(formula: sympy.Expr) -> bool:
    """False if it divides by zero or takes its logarithm."""
    return not any(
        node in _UNDEFINED
        or (isinstance(node, sympy.Pow) and node.exp.is_negative and node.base.is_zero)
        or (isinstance(node, sympy.log) and node.args[0].is_zero)
        for node in sympy.preorder_traversal(formula)
    )


def _named(formula: Any) -> Any:
    """``formula`` with a symbol for each value of an unknown function, and the imaginary unit."""
    unknown = formula.atoms(AppliedUndef, sympy.Derivative)
    bound = formula.atoms(sympy.Limit, sympy.Integral, sympy.Sum, sympy.Product)
    unknown |= {node for node in bound if node.has(AppliedUndef)}
    names = {node: str(node.as_dummy()) for node in unknown}
    formula = formula.xreplace({n: sympy.Symbol(name, real=True) for n, name in names.items()})
    return formula.subs({node: sympy.I for node in formula.free_symbols if node.name == "i"})


def _with_constants_renamed(left: sympy.Expr, right: sympy.Expr) -> Iterator[sympy.Expr]:
    """``right`` with its constants of integration named as in ``left``."""
    one, other = left.free_symbols - right.free_symbols, right.free_symbols - left.free_symbols
    if not 0 < len(one) == len(other) <= _MAX_CONSTANTS or not left.free_symbols - one:
        return
    # A single one is a summand, or called C: the k of kx may be given in the problem.
    summands = [side.diff(*own).is_number for side, own in ((left, one), (right, other))]
    named = any(symbol.name.startswith("C") for symbol in one)
    constants = all(_CONSTANT.fullmatch(symbol.name) for symbol in one | other)
    if not constants or (len(one) == 1 and not all(summands) and not named):
        return
    for names in itertools.permutations(one):
        yield right.xreplace(dict(zip(other, names, strict=True)))


def _is_zero_function(difference: sympy.Expr, symbols: list[sympy.Symbol]) -> bool | None:
    whole = difference.has(sympy.factorial, sympy.Sum, sympy.Product, sympy.binomial)
    agreed = False
    for scale in _SCALES:
        point = {symbol: scale * _coordinate(symbol.name) for symbol in symbols}
        if whole:
            point = {symbol: sympy.ceiling(7 * value) for symbol, value in point.items()}
        value = ball(difference, point, bits=_PROOF_BITS)
        if value is not None and not value.contains(0):
            # Roots and logarithms of products are often split as if all factors were positive.
            powers = difference.atoms(sympy.Pow)
            roots = difference.has(sympy.log) or not all(p.exp.is_Integer for p in powers)
            return None if agreed and scale < 0 and roots else False
        agreed = agreed or value is not None
    if not difference.has(sympy.Abs):
        # What is defined for positive numbers alone is compared for these.
        difference = difference.xreplace({s: sympy.Symbol(s.name, positive=True) for s in symbols})
    return _is_zero_by_algebra(difference) or None


def _coordinate(name: str) -> sympy.Rational:
    """A number in (0, 1] derived from the name; different names rarely share one."""
    place = 1 + zlib.crc32(name.encode("utf-8", "backslashreplace")) % _POINTS
    return sympy.Rational(place, _POINTS)


def _is_zero_number(number: sympy.Expr) -> bool | None:
    value = ball(number, {}, bits=_PROOF_BITS)
    if value is not None and not value.contains(0):
        return False
    # Sums and integrals are computed only if no ball can tell.
    number = number.doit()
    angles = {node: node.args[0] / sympy.I for node in number.atoms(sympy.exp)}
    turns = {node: angle for node, angle in angles.items() if (angle / sympy.pi).is_Rational}
    # Roots of unity in algebraic form.
    number = number.xreplace({n: sympy.cos(a) + sympy.I * sympy.sin(a) for n, a in turns.items()})
    number = sympy.expand_log(number, factor=True)
    for known in (number, _exponential(number)):
        needed = separation_bits(known)
        if needed < _BITS[-1]:
            return _is_ball_zero(known, needed) and _is_ball_zero(number, _PROOF_BITS)
    if _is_ball_zero(number, math.inf) is False:
        return False
    return _is_zero_by_algebra(number) or None


def _is_ball_zero(number: sympy.Expr, needed: float) -> bool | None:
    """False if a ball excludes zero; True if one of at most 2**-needed holds it; else None."""
    for bits in _BITS:
        value = ball(number, {}, bits=bits)
        if value is None or not value.contains(0):
            return None if value is None else False
        if needed < bits and value.abs_upper() < flint.arb(2) ** -int(needed + 1):
            return True
    return None


def _exponential(number: sympy.Expr) -> sympy.Expr:
    """``exp(n * number) - 1`` without exp, if the number is a rational combination of logarithms.

    Inverse trigonometric functions and multiples of pi are logarithms of algebraic numbers. If it is
    zero, the number is a multiple of ``2 pi i / n``.
    """
    terms = sympy.Add.make_args(sympy.expand(number.rewrite(sympy.log)))
    unit = sympy.I if any(term.has(sympy.I) for term in terms) else sympy.Integer(1)
    powers = []
    for term in terms:
        factor, rest = (term / unit).as_coeff_Mul()
        base = sympy.Integer(-1) if rest == sympy.I * sympy.pi else sympy.exp(rest)
        if not isinstance(rest, sympy.log) and base != -1:
            return number
        powers.append((base, factor))
    whole = math.lcm(*(int(factor.q) for _, factor in powers))
    return sympy.Mul(*(base ** (factor * whole) for base, factor in powers)) - 1


def _is_zero_by_algebra(difference: sympy.Expr) -> bool:
    difference = sympy.expand(sympy.expand_log(difference.doit(), force=True))
    return bool(difference == 0 or sympy.simplify(difference) == 0)


def _is_rounded(value: sympy.Expr, rounded: sympy.Expr) -> bool:
    """True if ``rounded`` is a decimal that ``value``, no fraction, is rounded or cut to."""
    places = decimals(rounded) if rounded.is_Rational and not value.is_Rational else None
    if places is None or places < MIN_ROUNDED_DECIMALS:
        return False
    bits = _PROOF_BITS + 4 * places
    size = ball(value * sympy.Integer(10) ** places, {}, bits=bits)
    if size is None:
        return False
    shifts = [0.5, *([0 if rounded > 0 else 1] if places > MIN_ROUNDED_DECIMALS else [])]
    with flint.ctx.workprec(bits):
        near = {(size.real + shift).floor().unique_fmpz() for shift in shifts}
    return bool(size.imag.contains(0)) and int(rounded * 10**places) in near


def _links(parsed: Any) -> list[Any]:
    """The equations or inequalities of a chain; empty for anything else."""
    chain = parsed._unsorted_args if isinstance(parsed, And) else [parsed]  # noqa: SLF001
    return chain if all(isinstance(link, Relational) for link in chain) else []


def _is_name(side: Any) -> bool:
    return isinstance(side, sympy.Symbol | AppliedUndef)


def _same_relation(gold: Any, answer: Any) -> bool | None:
    chains = _links(gold), _links(answer)
    if not all(isinstance(link, sympy.Eq) for link in (*chains[0], *chains[1])):
        return all(chains) and paired(*chains, _same_inequality)
    one, other = (
        [chain[0].lhs, *(link.rhs for link in chain)] if chain else [side]
        for chain, side in zip(chains, (gold, answer), strict=True)
    )
    names, others = (set(filter(_is_name, sides[:-1])) for sides in (one, other))
    if len(other) == 1 and not names:
        return False
    if len(one) == len(other) == 2:
        return _same_equations(chains[0][0], chains[1][0])
    if _is_system(one) or _is_system(other):
        return (len(one) == len(other) and _all_same(one, other)) or None
    if all(chains) and names != others:
        return None if names < others or others < names else False
    found = same_object(one[-1], other[-1])
    # One value for several names is another structure than the value.
    return None if found and not all(chains) and len(names | others) > 1 else found


def _is_system(sides: list[Any]) -> bool:
    """True if a chain says more than that its first side has the value of its last."""
    steps = itertools.pairwise(sides[1:])
    return any(not _is_name(left) and same_object(left, right) is not True for left, right in steps)


def _same_equations(gold: Any, answer: Any) -> bool | None:
    if _is_name(gold.lhs) and _is_name(answer.lhs):
        functions = [isinstance(link.lhs, AppliedUndef) for link in (gold, answer)]
        if gold.lhs == answer.lhs or len(set(functions)) > 1:
            return same_object(gold.rhs, answer.rhs)
        (name, letter), (other, other_letter) = _argument(gold.lhs), _argument(answer.lhs)
        if name == other and letter and other_letter and letter not in answer.rhs.free_symbols:
            return same_object(gold.rhs, answer.rhs.subs(other_letter, letter))
    return _same_zeros(*(_named(link.lhs - link.rhs) for link in (gold, answer)))


def _argument(defined: Any) -> tuple[str, Any]:
    """Name and argument of ``f(x)`` or ``a_n``; no argument if it is not a letter."""
    if isinstance(defined, AppliedUndef):
        argument = defined.args[0] if len(defined.args) == 1 else None
        return str(defined.func), argument if isinstance(argument, sympy.Symbol) else None
    found = re.fullmatch(r"(\w+?)_\{?([a-z])\}?", defined.name)
    return (found[1], sympy.Symbol(found[2], real=True)) if found else (defined.name, None)


def _same_zeros(one: Any, other: Any) -> bool:
    """True if two formulas are zero at the same points."""
    one, other = (sympy.numer(sympy.together(side)) for side in (one, other))
    if _is_multiple(one, other):
        return True
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    if one.is_polynomial(*symbols) and other.is_polynomial(*symbols):
        factors = [{factor for factor, _ in sympy.factor_list(side)[1]} for side in (one, other)]
        # A factor and its negative are zero together.
        return factors[0] == {f if f in factors[0] else -f for f in factors[1]}
    for symbol in symbols:
        roots = [sympy.solve(side, symbol) for side in (one, other)]
        ordered = [sorted(found, key=sympy.default_sort_key) for found in roots]
        if roots[0] and len(roots[0]) == len(roots[1]) and all(map(same_value, *ordered)):
            return True
    return False


def _same_inequality(one: Any, other: Any) -> bool:
    """True if one is a positive multiple of the other."""
    one, other = (link.reversed if type(link) in _GREATER else link for link in (one, other))
    sides = (_named(link.rhs - link.lhs) for link in (one, other))
    return type(one) is type(other) and _is_multiple(*sides, positive=True)


def _is_multiple(one: Any, other: Any, *, positive: bool = False) -> bool:
    """True if one formula is the other times a number that is not zero."""
    symbols = one.free_symbols | other.free_symbols
    point: Point = {symbol: _coordinate(symbol.name) for symbol in symbols}
    factor = one.subs(point) / other.subs(point)
    value = ball(factor, {}, bits=_PROOF_BITS)
    if value is None or value.contains(0) or (positive and not value.real > 0):
        return False
    return bool(same_value(one, factor * other))
