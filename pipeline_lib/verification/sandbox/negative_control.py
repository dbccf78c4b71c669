"""The negative control: the same tests with one expected value altered.

A program that passes these as well did not compute what the tests ask for; it cheats.
"""

import ast
import math
from collections.abc import Callable
from typing import Any

ALTERED = "__altered__"
"""The name under which tests find :func:`altered`."""


class NoControlError(Exception):
    """The tests hold no assert, so none of them can be altered."""


def alter_one(tree: ast.Module) -> ast.Module:
    """Make the first assert of the tests ask for another value, in place.

    ``f(x) == E`` and ``is`` ask for ``altered(E)``, ``abs(f(x) - E) < tolerance`` is centred on
    ``altered(E)``; any other condition is negated.

    Raises:
        NoControlError: there is no assert.
    """
    asserts = (node for node in ast.walk(tree) if isinstance(node, ast.Assert))
    first = next((node for node in asserts if not isinstance(node.test, ast.Constant)), None)
    if first is None:
        raise NoControlError("no assert to alter")
    first.test = _altered_condition(first.test)
    return ast.fix_missing_locations(tree)


def altered(value: Any) -> Any:
    """Another value of the same kind, far from ``value``."""
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value)
    return "~"


_CHANGES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (bool, lambda value: not value),
    (float, lambda value: value + 1 + abs(value) if math.isfinite(value) else 0.0),
    ((int, complex), lambda value: value + 1 + abs(value)),
    (str, lambda value: value + "~"),
    ((list, tuple), lambda value: type(value)([*value, "~"])),
    ((set, frozenset), lambda value: value ^ {"~"}),
    (dict, lambda value: {**value, "~": "~"}),
)


def _altered_condition(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.Is()], comparators=[expected]):
            test.comparators = [_altered_call(expected)]
        case ast.Compare(
            left=ast.Call(args=[ast.BinOp(op=ast.Sub()) as difference]),
            ops=[ast.Lt() | ast.LtE()],
        ):
            difference.right = _altered_call(difference.right)
        case _:
            return ast.UnaryOp(op=ast.Not(), operand=test)
    return test


def _altered_call(expected: ast.expr) -> ast.expr:
    return ast.Call(func=ast.Name(id=ALTERED, ctx=ast.Load()), args=[expected], keywords=[])
