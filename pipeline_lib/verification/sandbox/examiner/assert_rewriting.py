"""Assert rewriting for the negative control: every assert is compiled to expect another value.

The names that the rewritten code uses are defined in `negative_control`.
"""

import ast
import builtins
import re
import sys
from typing import Any

ALTERED, FAR, APART = "__altered__", "__far__", "__apart__"
"""Names of functions of an expected value: another one, a distant one, a container without it."""
FILLED, CHECKED, DECIDE = "__filled__", "__checked__", "__decide__"
"""Names of functions of: an expected result of a call, an operand of an order, an altered assert."""
_HOLDS = "__holds__"
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_MAY_BE_VACUOUS = re.compile(r"[<>]|\b(min|max|sorted|zip|class)\b|\.assert")
_EQUALS = re.compile(r"assert(?!.*[Nn]ot).*([Ee]qual|close)")
_NEAR = frozenset({"isclose", "allclose", "array_equal", "array_equiv"})
_VALUES = (
    *(ast.Constant, ast.Name, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp),
    *(ast.Attribute, ast.Subscript, ast.Load, ast.operator, ast.unaryop, ast.Slice),
)


def always_holds(tree: ast.Module) -> bool:
    """True if an assert asks for the truth of a display, as ``assert (a == b, "text")`` does."""
    return any(
        isinstance(node, ast.Assert)
        and (
            isinstance(node.test, ast.JoinedStr | ast.Lambda)
            or bool(getattr(node.test, "elts", getattr(node.test, "keys", None)))
        )
        for node in ast.walk(tree)
    )


def drop_messages(tree: ast.Module) -> bool:
    """Remove messages that call something, since a failing assert would; True if there are any."""
    asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    calling = [
        node
        for node in asserts
        if node.msg is not None and any(isinstance(part, ast.Call) for part in ast.walk(node.msg))
    ]
    for node in calling:
        node.msg = None
    return bool(calling)


def is_plain(tree: ast.Module, tests: str) -> bool:
    """True if all asserts are equalities with a value, at the top level or in ``check``.

    None can be vacuous, unless a function of NaN or of nothing is, and none be caught.
    """
    if _MAY_BE_VACUOUS.search(tests):
        return False
    body = tree.body
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            body = node.body
    asserts = [node.test for node in body if isinstance(node, ast.Assert)]
    num_everywhere = sum(isinstance(node, ast.Assert) for node in ast.walk(tree))
    return 0 < len(asserts) == num_everywhere and all(
        isinstance(condition, ast.Constant)
        or (
            isinstance(condition, ast.Compare)
            and isinstance(condition.ops[0], ast.Eq)
            and len(condition.ops) == 1
            and all(isinstance(node, _VALUES) for node in ast.walk(condition.comparators[0]))
        )
        for condition in asserts
    )


def rewrite_asserts(tree: ast.Module) -> int:
    """Rewrite asserts in place to expect another value, and return their number.

    ``f(x) == E`` and ``is`` expect ``ALTERED(E)``, ``f(x) in E`` expects ``APART(E)``, an order
    comparison of ``abs(f(x) - E)`` and the like ``FAR(E)``; other conditions are negated.
    Expected values alone are altered, never what a call of the candidate is given.
    """
    rewriter = _AssertRewriter()
    rewriter.visit(tree)
    ast.fix_missing_locations(tree)
    return rewriter.num_altered


# As in remote_exceptions, there is no typing.override.
class _AssertRewriter(ast.NodeTransformer):
    num_altered = 0

    def visit_Assert(self, node: ast.Assert) -> Any:  # type: ignore[explicit-override]
        if isinstance(node.test, ast.Constant):
            return node
        found = _set(_call("bool", self.visit(_alter_condition(node.test))))
        return self._decided([found], node)

    def visit_Expr(self, node: ast.Expr) -> Any:  # type: ignore[explicit-override]
        """A check of unittest or NumPy for equality is an assert, too."""
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Attribute(attr=name), args=[_, expected, *_] as given):
                if _EQUALS.fullmatch(name):
                    given[1] = _call(FAR, expected)
                    return self._decided([node, _set(ast.Constant(value=True))], node)
            case _:
                pass
        return node

    def _decided(self, found: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        # A comparison that raises with the altered value does not hold.
        nothing = ast.ExceptHandler(
            type=_name("Exception"), name=None, body=[_set(ast.Constant(value=False))]
        )
        decide = _call(DECIDE, _name(_HOLDS))
        decide.args.append(ast.Constant(value=self.num_altered))
        self.num_altered += 1
        tried = ast.Try(body=found, handlers=[nothing], orelse=[], finalbody=[])
        return [ast.copy_location(tried, node), ast.copy_location(ast.Expr(value=decide), node)]

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:  # type: ignore[explicit-override]
        """Check the operands of order comparisons for NaN."""
        self.generic_visit(node)
        if any(isinstance(operator, _ORDERS) for operator in node.ops):
            node.left = _call(CHECKED, node.left)
            node.comparators = [_call(CHECKED, operand) for operand in node.comparators]
        return node


def _alter_condition(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.Is()], comparators=[expected]):
            name = FILLED if isinstance(expected, ast.Call) else ALTERED
            test.comparators = [_call(name, expected)]
            return test
        case ast.Call(
            func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, expected, *_]
        ) if name in _NEAR:
            test.args[1] = _call(FAR, expected)
            return test
        case (
            ast.Call(func=ast.Attribute(attr="all"), args=[ast.Compare() | ast.Call() as inner])
            | ast.Call(func=ast.Attribute(value=ast.Compare() | ast.Call() as inner, attr="all"))
        ):
            # Of an array; of nothing it is true whatever is expected.
            return ast.Call(ast.Attribute(_alter_condition(inner), "all", ast.Load()), [], [])
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
            difference = _difference(small) if isinstance(small, ast.Call | ast.BinOp) else None
        case _:
            difference = None
    if difference is None:
        return ast.UnaryOp(op=ast.Not(), operand=test)
    difference.right = _call(FAR, difference.right)
    return test


def _difference(node: ast.expr, *, called: bool = False) -> ast.BinOp | None:
    """``a - b`` inside a call of the library such as ``abs``, not of the candidate."""
    match node:
        case ast.BinOp(op=ast.Sub()) if called:
            return node
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Call(func=function, args=parts) if _is_of_library(function):
            called = True
        case _:
            return None
    found = (_difference(part, called=called) for part in parts)
    return next((one for one in found if one is not None), None)


def _is_of_library(function: ast.expr) -> bool:
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and (
        hasattr(builtins, function.id)
        or function.id in sys.stdlib_module_names
        or function.id in {"np", "numpy", "fabs"}
    )


def _set(value: ast.expr) -> ast.Assign:
    return ast.Assign(targets=[ast.Name(id=_HOLDS, ctx=ast.Store())], value=value)


def _name(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _call(name: str, argument: ast.expr) -> ast.Call:
    return ast.Call(func=_name(name), args=[argument], keywords=[])
