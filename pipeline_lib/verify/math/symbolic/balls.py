"""Values of formulas as balls: intervals of proven radius, at any precision. Imported by workers only.

`separation_bits` bounds how close to zero an algebraic number can be without being zero, so a small
enough ball around zero proves that it is zero.

Source: Burnikel, Funke, Mehlhorn, Schirra, Schmitt, "A separation bound for real algebraic
expressions", 2001; Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval
arithmetic", 2017.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import flint
import sympy

_METHODS = {sympy.floor: "real_floor", sympy.ceiling: "real_ceil"} | {
    getattr(sympy, name): name
    for name in (
        "exp", "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh",
        "tanh", "asinh", "acosh", "atanh", "gamma", "erf", "zeta", "conjugate",
    )
}  # fmt: skip
_TRIGONOMETRIC = (sympy.sin, sympy.cos, sympy.tan, sympy.cot, sympy.sec, sympy.csc)
_CONSTANTS: Mapping[Any, Callable[[], Any]] = {
    sympy.pi: flint.arb.pi,
    sympy.E: flint.arb.const_e,
    sympy.EulerGamma: flint.arb.const_euler,
    sympy.Catalan: flint.arb.const_catalan,
    sympy.GoldenRatio: lambda: (1 + flint.arb(5).sqrt()) / 2,
    sympy.I: lambda: flint.acb(0, 1),
}

_UNKNOWN = flint.acb("nan")

Point = Mapping[sympy.Symbol, sympy.Rational]


def ball(formula: sympy.Basic, point: Point, *, bits: int) -> Any:
    """The ball around the value of ``formula`` at ``point``, computed with ``bits`` of precision.

    None if the formula holds a node of unknown value, if `point` is outside its real domain, and for
    an infinite value.
    """
    with flint.ctx.workprec(bits):
        value = _value(formula, point)
    return value if value.is_finite() else None


def _value(node: Any, point: Point) -> Any:
    if isinstance(node, sympy.Rational):
        return flint.acb(flint.fmpq(int(node.p), int(node.q)))
    if node in _CONSTANTS:
        return flint.acb(_CONSTANTS[node]())
    if node in point:
        return _value(point[node], point)
    values = [_value(argument, point) for argument in node.args]
    if type(node) in _METHODS:
        return getattr(values[0], _METHODS[type(node)])()
    return _OPERATIONS[type(node)](node, values) if type(node) in _OPERATIONS else _UNKNOWN


def _power(node: sympy.Pow, values: list[Any]) -> Any:
    base, power = values[0], node.exp
    if power.is_Integer:
        return base ** int(power) if power >= 0 else 1 / base ** int(-power)
    if node.base != sympy.E:
        base = _where_real(node, base)
    return base.sqrt() if power == sympy.Rational(1, 2) else base ** values[1]


def _logarithm(node: sympy.Expr, values: list[Any]) -> Any:
    logarithm = _where_real(node, values[0]).log()
    return logarithm if len(values) == 1 else logarithm / values[1].log()


_OPERATIONS: Mapping[type, Callable[[Any, list[Any]], Any]] = {
    sympy.Add: lambda _, values: sum(values, flint.acb(0)),
    sympy.Mul: lambda _, values: math.prod(values, start=flint.acb(1)),
    sympy.Pow: _power,
    sympy.log: _logarithm,
    sympy.factorial: lambda _, values: (values[0] + 1).gamma(),
    sympy.Abs: lambda _, values: flint.acb(abs(values[0])),
    sympy.UnevaluatedExpr: lambda _, values: values[0],
}


def _where_real(node: Any, value: Any) -> Any:
    """Formulas with symbols are compared where their roots and logarithms are real."""
    real = not node.free_symbols or (value.imag.contains(0) and value.real > 0)
    return value if real else _UNKNOWN


def separation_bits(number: sympy.Basic) -> float:
    """Bits after the point that decide whether an algebraic number is zero; infinite for others."""
    degree = 1
    for node in set(sympy.preorder_traversal(number)):
        if isinstance(node, sympy.Pow) and node.exp.is_Rational:
            degree *= int(node.exp.q)
        elif node is sympy.I:
            degree *= 2
        elif _is_rational_turn(node):
            degree *= 4 * int((node.args[0] / sympy.pi).q)
    above, below = _bound(number)
    return (degree - 1) * above + below + 1


def _is_rational_turn(node: Any) -> bool:
    """True for a trigonometric function of a rational multiple of pi."""
    return isinstance(node, _TRIGONOMETRIC) and bool((node.args[0] / sympy.pi).is_Rational)


def _bound(node: Any) -> tuple[float, float]:
    """Logarithms of the bounds u and l of an expression, in bits."""
    if isinstance(node, sympy.Rational):
        return math.log2(abs(int(node.p)) + 1), math.log2(int(node.q))
    if node is sympy.I or _is_rational_turn(node):
        # The functions are quotients of sums of two roots of unity.
        return 1, 1
    if isinstance(node, sympy.Mul | sympy.Add):
        aboves, belows = zip(*map(_bound, node.args), strict=True)
        if isinstance(node, sympy.Mul):
            return sum(aboves), sum(belows)
        most = max(above - below for above, below in zip(aboves, belows, strict=True))
        return sum(belows) + most + math.log2(len(aboves)), sum(belows)
    if isinstance(node, sympy.Pow) and node.exp.is_Rational:
        times, root = abs(int(node.exp.p)), int(node.exp.q)
        above, below = (times * bits for bits in _bound(node.base))
        if node.exp < 0:
            above, below = below, above
        return (above + (root - 1) * below) / root, below
    return math.inf, math.inf
