"""Expressions shown to be different by their values at one point: the cheap end of most comparisons.

Two formulas that differ somewhere are different formulas. To see that takes half a millisecond,
where SymPy tries for 5 to 40 ms, and on some answers for minutes, to make the difference vanish.
Only a plain difference counts, so that what math-verify takes for equal within rounding still is.
Only the worker process imports this module.
"""

import zlib

import sympy

TOLERANCE = 1e-5
"""math-verify rounds to six decimals, and large decimals to 15 digits."""

_DIGITS = 15
_POINTS = 1009
_KINDS = (
    sympy.Add,
    sympy.Mul,
    sympy.Pow,
    sympy.Number,
    sympy.NumberSymbol,
    sympy.core.numbers.ImaginaryUnit,
    sympy.Symbol,
    sympy.exp,
    sympy.log,
    sympy.sin,
    sympy.cos,
    sympy.tan,
    sympy.cot,
    sympy.sec,
    sympy.csc,
    sympy.factorial,
)
"""Nodes whose value at a point says what they are; an integral or a percentage is more than that."""


def surely_different(left: sympy.Basic, right: sympy.Basic) -> bool:
    """Whether the values of two formulas differ where every symbol is a number in (0, 1].

    False says nothing: they may be equal, too close, or no formulas of numbers and symbols.
    """
    if not (_is_formula(left) and _is_formula(right)):
        return False
    point = {symbol: _value(symbol.name) for symbol in left.free_symbols | right.free_symbols}
    one, other = (formula.evalf(_DIGITS, subs=point) for formula in (left, right))
    # No numbers where a value is infinite or undefined.
    if not (one.is_number and other.is_number):
        return False
    return bool(abs(one - other) > TOLERANCE * max(1, abs(one)))


def _is_formula(expression: sympy.Basic) -> bool:
    # math-verify compares a lone symbol by name, and takes "abc" for a product.
    if not isinstance(expression, sympy.Expr) or isinstance(expression, sympy.Symbol):
        return False
    return all(isinstance(node, _KINDS) for node in sympy.preorder_traversal(expression))


def _value(name: str) -> sympy.Rational:
    """The same number for the same name; names seldom share one."""
    return sympy.Rational(
        1 + zlib.crc32(name.encode("utf-8", "backslashreplace")) % _POINTS, _POINTS
    )
