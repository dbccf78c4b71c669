"""Disproof of equality by evaluating both formulas at one point.

Formulas that differ at a point are different. This takes half a millisecond, while simplifying the
difference with SymPy takes 5 to 40 ms, for some answers minutes. The difference must be clear, so
that formulas that math-verify accepts as equal within rounding remain equal. Imported by workers
only.
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
"""Nodes determined by their values; an integral or a percentage is not."""


def differ_numerically(left: sympy.Basic, right: sympy.Basic) -> bool:
    """True if two formulas differ at a point where every symbol is a number in (0, 1].

    False is inconclusive: they may be equal, too close, or not made of numbers and symbols.
    """
    if not (_is_formula(left) and _is_formula(right)):
        return False
    point = {symbol: _value(symbol.name) for symbol in left.free_symbols | right.free_symbols}
    one, other = (formula.evalf(_DIGITS, subs=point) for formula in (left, right))
    # Not a number if a value is infinite or undefined.
    if not (one.is_number and other.is_number):
        return False
    return bool(abs(one - other) > TOLERANCE * max(1, abs(one)))


def _is_formula(expression: sympy.Basic) -> bool:
    # math-verify compares a lone symbol by name, and reads "abc" as a product.
    if not isinstance(expression, sympy.Expr) or isinstance(expression, sympy.Symbol):
        return False
    return all(isinstance(node, _KINDS) for node in sympy.preorder_traversal(expression))


def _value(name: str) -> sympy.Rational:
    """A number derived from the name; different names rarely share one."""
    return sympy.Rational(
        1 + zlib.crc32(name.encode("utf-8", "backslashreplace")) % _POINTS, _POINTS
    )
