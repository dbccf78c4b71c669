"""Assert rewriting for the negative control: every assert is compiled to expect another value.

The names that the rewritten code uses are defined in `negative_control`.
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
    """The tests contain no assert to alter."""


def rewrite_asserts(tests: str) -> ast.Module:
    """The tests with every assert expecting another value.

    ``f(x) == E`` and ``is`` expect ``alter(E)``, ``f(x) in E`` expects ``disjoint(E)``, an order
    comparison of ``abs(f(x) - E)`` and the like ``shift_far(E)``; other conditions are negated.

    Raises:
        NoControlError: there is no assert.
        SyntaxError: they are not Python.
    """
    tree = ast.parse(tests)
    # An equality of plain values is never vacuous, so the first one is enough.
    first_only = not _MAY_BE_VACUOUS.search(tests) and _are_equalities(tree)
    rewriter = _AssertRewriter(tree, tests, first_only=first_only)
    tree.body = rewriter.rewrite(tree.body, swallowing=False)
    if not rewriter.num_altered:
        raise NoControlError("no assert to alter")
    if _ORDER.search(tests):
        tree = ast.fix_missing_locations(_OrderOperands().visit(tree))
    return tree


class _AssertRewriter:
    """Replaces asserts. It visits statements only, because each pass over a tree costs run time."""

    def __init__(self, tree: ast.Module, tests: str, *, first_only: bool) -> None:
        self.num_altered = 0
        self._first_only = first_only
        self._swallows = bool(_SWALLOWS.search(tests)) and any(map(_swallows, ast.walk(tree)))

    def rewrite(self, body: list[ast.stmt], *, swallowing: bool) -> list[ast.stmt]:
        """Statements with asserts replaced; ``swallowing``: a handler may swallow a failure."""
        return [new for node in body for new in self._statement(node, swallowing=swallowing)]

    def _statement(self, node: ast.stmt, *, swallowing: bool) -> list[ast.stmt]:
        if isinstance(node, ast.Assert):
            return self._replace_assert(node, fails=swallowing)
        called_in_try = isinstance(node, ast.FunctionDef) and node.name != "check"
        inside = swallowing or _swallows(node) or (called_in_try and self._swallows)
        for part in ("body", "orelse", "finalbody"):
            if statements := getattr(node, part, None):
                setattr(node, part, self.rewrite(statements, swallowing=inside))
        for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            handler.body = self.rewrite(handler.body, swallowing=swallowing)
        return [node]

    def _replace_assert(self, node: ast.Assert, *, fails: bool) -> list[ast.stmt]:
        if isinstance(node.test, ast.Constant) or (self._first_only and self.num_altered):
            return [node]
        self.num_altered += 1
        fails = fails or self._first_only
        at = _location(node)
        condition = _alter_condition(node.test)
        # A comparison that raises with the altered value does not hold.
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
class _OrderOperands(ast.NodeTransformer):
    """Checks the operands of order comparisons for NaN."""

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:  # type: ignore[explicit-override]
        self.generic_visit(node)
        if any(isinstance(operator, _ORDERS) for operator in node.ops):
            node.left = _call(CHECKED, node.left)
            node.comparators = [_call(CHECKED, operand) for operand in node.comparators]
        return node


def _are_equalities(tree: ast.Module) -> bool:
    """True if all asserts are simple equalities, at the top level or in ``check``."""
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


def _location(node: ast.stmt | ast.expr) -> dict[str, Any]:
    """Source location for a node that replaces ``node``."""
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def _swallows(node: ast.AST) -> bool:
    """True if a failed assert inside may be caught."""
    if isinstance(node, ast.With):
        return True
    if not isinstance(node, ast.Try):
        return False
    caught = [name for handler in node.handlers for name in _caught(handler)]
    return any(name in caught for name in ("", "AssertionError", "Exception", "BaseException"))


def _caught(handler: ast.ExceptHandler) -> list[str]:
    """Names of the classes that a handler catches; "" for an expression that is not a name."""
    match handler.type:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=kinds):
            return [kind.id if isinstance(kind, ast.Name) else "" for kind in kinds]
        case _:
            return [""]


def _alter_condition(test: ast.expr) -> ast.expr:
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
        return ast.UnaryOp(op=ast.Not(), operand=test, **_location(test))
    difference.right = _call(FAR, difference.right)
    return test


def _difference(small: ast.expr) -> ast.BinOp | None:
    """``a - b`` inside a call such as ``abs``, in the side that is expected to be small."""
    if not any(isinstance(node, ast.Call) for node in ast.walk(small)):
        return None
    calls = (node for node in ast.walk(small) if isinstance(node, ast.Call))
    parts = (node for call in calls for argument in call.args for node in ast.walk(argument))
    subtractions = (n for n in parts if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub))
    return next(subtractions, None)


def _call(name: str, argument: ast.expr) -> ast.Call:
    at = _location(argument)
    return ast.Call(func=_name(name, at), args=[argument], keywords=[], **at)
