"""The tests of a negative control: every assert compiled to ask for another value than it does.

What the names mean that are compiled in, and what comes of a run, says ``negative_control``.
"""

import ast
import re
from typing import Any

from pipeline_lib.verification.sandbox.examiner.negative_control import (
    ALTERED,
    APART,
    CHECKED,
    DECIDE,
    FAR,
)

_HOLDS = "__holds__"
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ORDER = re.compile("[<>]")
_SWALLOWS = re.compile(r"\b(try|with)\b")
_MAY_BE_VACUOUS = re.compile(
    r"[<>]|\b(not|in|is|try|with|if|for|while|lambda|class|all|any|min|max|sorted|zip|map|filter)\b"
)


class NoControlError(Exception):
    """The tests hold no assert, so none of them can be altered."""


def alter_all(tests: str) -> ast.Module:
    """The tests with every assert asking for another value.

    ``f(x) == E`` and ``is`` ask for ``altered(E)``, ``f(x) in E`` for ``apart(E)``, an order of
    ``abs(f(x) - E)`` and the like for ``far(E)``; any other condition is negated.

    Raises:
        NoControlError: there is no assert.
        SyntaxError: they are not Python.
    """
    tree = ast.parse(tests)
    # Between plain values an equality is never vacuous, so the first one decides for all.
    first_only = not _MAY_BE_VACUOUS.search(tests) and _are_equalities(tree)
    alteration = _Alteration(tree, tests, first_only=first_only)
    tree.body = alteration.altered(tree.body, swallowing=False)
    if not alteration.num_altered:
        raise NoControlError("no assert to alter")
    if _ORDER.search(tests):
        tree = ast.fix_missing_locations(_Orders().visit(tree))
    return tree


class _Alteration:
    """Replaces asserts. Only statements are gone through: every pass over a tree costs a run time."""

    def __init__(self, tree: ast.Module, tests: str, *, first_only: bool) -> None:
        self.num_altered = 0
        self._first_only = first_only
        self._swallows = bool(_SWALLOWS.search(tests)) and any(map(_swallows, ast.walk(tree)))

    def altered(self, body: list[ast.stmt], *, swallowing: bool) -> list[ast.stmt]:
        """Statements with their asserts replaced; ``swallowing``: a failure might not be seen."""
        return [new for node in body for new in self._statement(node, swallowing=swallowing)]

    def _statement(self, node: ast.stmt, *, swallowing: bool) -> list[ast.stmt]:
        if isinstance(node, ast.Assert):
            return self._decided(node, fails=swallowing)
        called_in_try = isinstance(node, ast.FunctionDef) and node.name != "check"
        inside = swallowing or _swallows(node) or (called_in_try and self._swallows)
        for part in ("body", "orelse", "finalbody"):
            if statements := getattr(node, part, None):
                setattr(node, part, self.altered(statements, swallowing=inside))
        for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            handler.body = self.altered(handler.body, swallowing=swallowing)
        return [node]

    def _decided(self, node: ast.Assert, *, fails: bool) -> list[ast.stmt]:
        if isinstance(node.test, ast.Constant) or (self._first_only and self.num_altered):
            return [node]
        self.num_altered += 1
        fails = fails or self._first_only
        at = _place(node)
        condition = _altered_condition(node.test)
        # What an altered value makes impossible to compare does not hold.
        nothing = ast.ExceptHandler(
            type=_name("Exception", at),
            name=None,
            body=[_set(ast.Constant(value=False, **at), at)],
            **at,
        )
        found = _set(_call("bool", condition), at)
        decide = _call(DECIDE, _name(_HOLDS, at))
        decide.keywords.append(
            ast.keyword(arg="fails", value=ast.Constant(value=fails, **at), **at)
        )
        return [
            ast.Try(body=[found], handlers=[nothing], orelse=[], finalbody=[], **at),
            ast.Expr(value=decide, **at),
        ]


# As in remote_exceptions, there is no typing.override.
class _Orders(ast.NodeTransformer):
    """Has the operands of orders looked at."""

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:  # type: ignore[explicit-override]
        self.generic_visit(node)
        if any(isinstance(operator, _ORDERS) for operator in node.ops):
            node.left = _call(CHECKED, node.left)
            node.comparators = [_call(CHECKED, operand) for operand in node.comparators]
        return node


def _are_equalities(tree: ast.Module) -> bool:
    """Whether the tests are asserts, each that one thing equals another, alone or in a ``check``."""
    body = tree.body
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            body = node.body
    asserts = [node for node in body if isinstance(node, ast.Assert)]
    everywhere = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    conditions = [node.test for node in asserts if not isinstance(node.test, ast.Constant)]
    return len(asserts) == len(everywhere) and all(
        isinstance(condition, ast.Compare) and [type(o) for o in condition.ops] == [ast.Eq]
        for condition in conditions
    )


def _set(value: ast.expr, at: dict[str, Any]) -> ast.Assign:
    target = ast.Name(id=_HOLDS, ctx=ast.Store(), **at)
    return ast.Assign(targets=[target], value=value, **at)


def _name(name: str, at: dict[str, Any]) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load(), **at)


def _place(node: ast.stmt | ast.expr) -> dict[str, Any]:
    """Where a new node stands that takes the place of ``node``."""
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def _swallows(node: ast.AST) -> bool:
    """Whether a failed assert inside might not be seen outside."""
    if isinstance(node, ast.With):
        return True
    if not isinstance(node, ast.Try):
        return False
    caught = [name for handler in node.handlers for name in _caught(handler)]
    return any(name in caught for name in ("", "AssertionError", "Exception", "BaseException"))


def _caught(handler: ast.ExceptHandler) -> list[str]:
    """Names that a handler catches; the empty one for those that cannot be read off."""
    match handler.type:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=kinds):
            return [kind.id if isinstance(kind, ast.Name) else "" for kind in kinds]
        case _:
            return [""]


def _altered_condition(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.Is()], comparators=[expected]):
            test.comparators = [_call(ALTERED, expected)]
            return test
        case ast.Compare(ops=[ast.In()], comparators=[expected]):
            test.comparators = [_call(APART, expected)]
            return test
        case (
            ast.Compare(left=small, ops=[ast.Lt() | ast.LtE()])
            | ast.Compare(comparators=[small], ops=[ast.Gt() | ast.GtE()])
        ) | ast.UnaryOp(
            op=ast.Not(),
            operand=ast.Compare(left=small, ops=[ast.Gt() | ast.GtE()])
            | ast.Compare(comparators=[small], ops=[ast.Lt() | ast.LtE()]),
        ):
            difference = _difference(small)
        case _:
            difference = None
    if difference is None:
        return ast.UnaryOp(op=ast.Not(), operand=test, **_place(test))
    difference.right = _call(FAR, difference.right)
    return test


def _difference(small: ast.expr) -> ast.BinOp | None:
    """``a - b`` in what is to be small, if it is inside a call such as ``abs``."""
    if not any(isinstance(node, ast.Call) for node in ast.walk(small)):
        return None
    calls = (node for node in ast.walk(small) if isinstance(node, ast.Call))
    parts = (node for call in calls for argument in call.args for node in ast.walk(argument))
    subtractions = (n for n in parts if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub))
    return next(subtractions, None)


def _call(name: str, argument: ast.expr) -> ast.Call:
    at = _place(argument)
    return ast.Call(func=_name(name, at), args=[argument], keywords=[], **at)
