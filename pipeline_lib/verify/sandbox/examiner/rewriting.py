"""Rewriting of tests: handlers that see the original exceptions, and asserts that expect another value.

Python interprets some exceptions: StopIteration ends ``map`` and ``sum``, AttributeError means
"absent" to ``getattr``, IndexError ends a sequence. A candidate could pass tests by raising them.
They are raised as :class:`CandidateError`, which the interpreter does not interpret, and each
``except`` and ``with`` of the tests is compiled to unwrap it.

For the negative control every assert is compiled to expect another value. The names that the
rewritten code uses are defined in `negative_control`.
"""

import ast
import builtins
import contextlib
import re
import sys
from typing import Any

from pipeline_lib.verify.sandbox.examiner.shared_state import root_name

_SWALLOWED = (
    *(StopIteration, StopAsyncIteration, GeneratorExit),
    *(IndexError, KeyError, AttributeError, TypeError),
)
"""Exceptions that some protocol of the language interprets as "at the end" or "absent"."""
_CATCHING, _ORIGINAL, _MANAGED = "__catching__", "__genuine__", "__managed__"
FAR, APART, FILLED = "__far__", "__apart__", "__filled__"
"""Names of functions of an expected value: a distant one, a container without it, one if it is a call's."""
CHECKED, DECIDE = "__checked__", "__decide__"
"""Names of functions of an operand of an order, and of an altered assert."""
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_MAY_BE_VACUOUS = re.compile(r"[<>]|\b(min|max|sorted|zip|class)\b|\.assert")
_EQUALS = re.compile(r"assert(?!.*[Nn]ot).*([Ee]qual|close)")
_LIBRARIES = sys.stdlib_module_names | {"np", "numpy", "fabs"}
_NEAR = frozenset({"isclose", "allclose", "array_equal", "array_equiv"})


class CandidateError(BaseException):
    """Wraps an exception raised by the candidate, ``original``."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(*original.args)
        self.original = original


Raised = tuple[str, str, str, list[Any], dict[str, Any]]
"""An exception of the candidate: nearest builtin class, own class, message, arguments, attributes."""


def rebuild_exception(raised: Raised, *, own: type | None) -> BaseException:
    """An exception of the tests' ``own`` class, of the builtin one, or of a subclass of its name."""
    builtin, name, message, args, attributes = raised
    kind = getattr(builtins, builtin, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        kind = RuntimeError
    made: BaseException = RuntimeError(message)
    # UnicodeDecodeError and others need more than a message.
    with contextlib.suppress(TypeError, ValueError):
        named = own if own is not None and issubclass(own, kind) else kind
        if named is kind and name != kind.__name__:
            named = type(name, (kind,), {"__str__": lambda _: message})
        made = named(*args)
    vars(made).update({key: value for key, value in attributes.items() if key[:2] != "__"})
    return made


def to_candidate_error(error: BaseException) -> BaseException:
    """The exception to raise in the tests for an exception of the candidate."""
    if not isinstance(error, _SWALLOWED):
        return error
    frame = sys._getframe()  # noqa: SLF001 - importing inspect would slow every run
    package = __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
    # The library's own ``with`` around a call in ``assertRaises(kind, function)``.
    is_expected = frame.f_globals.get("__name__") == "unittest.case"
    return error if is_expected else CandidateError(error)


def to_original(error: BaseException) -> BaseException:
    """The inverse of :func:`to_candidate_error`."""
    return error.original if isinstance(error, CandidateError) else error


def unwrap_in_handlers(tree: ast.Module) -> ast.Module:
    """Rewrite every ``except`` and ``with`` of the tests to handle the original exception."""
    changed: ast.Module = _HandlerRewriter().visit(tree)
    return ast.fix_missing_locations(changed)


def _catching(kinds: Any) -> Any:
    """The class that a handler for ``kinds`` must catch; evaluated while handling the exception."""
    error = sys.exc_info()[1]
    if not isinstance(error, CandidateError):
        return kinds
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    is_wanted = any(isinstance(k, type) and isinstance(error.original, k) for k in wanted)
    return CandidateError if is_wanted else ()


class _Managed:
    """A context manager to which the original exception is passed; outside it remains wrapped."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __enter__(self) -> Any:
        return self._manager.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> Any:
        if isinstance(error, CandidateError):
            kind, error = type(error.original), error.original
        return self._manager.__exit__(kind, error, trace)


HANDLER_NAMES = {_CATCHING: _catching, _ORIGINAL: to_original, _MANAGED: _Managed}
"""Names used in the code that :func:`unwrap_in_handlers` adds to the tests."""


# typing.override is not in Python 3.11, and the jail has no third-party packages.
class _HandlerRewriter(ast.NodeTransformer):
    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:  # type: ignore[explicit-override]
        self.generic_visit(node)
        if node.type is not None:
            node.type = _call_of(_CATCHING, node.type)
        if node.name is not None:
            target = ast.Name(id=node.name, ctx=ast.Store())
            original = _call_of(_ORIGINAL, ast.Name(id=node.name, ctx=ast.Load()))
            node.body.insert(0, ast.Assign(targets=[target], value=original))
        return node

    def visit_With(self, node: ast.With) -> ast.With:  # type: ignore[explicit-override]
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = _call_of(_MANAGED, item.context_expr)
        return node


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


def is_plain(tree: ast.Module, tests: str) -> bool:
    """True if all asserts are equalities with a value, at the top level or in ``check``.

    None can be vacuous, unless a function of NaN or of nothing is, and none be caught. This is
    known without a replay, which matters to the speed.
    """
    if _MAY_BE_VACUOUS.search(tests):
        return False
    checks = [
        one.body for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "check"
    ]
    reached = [one for body in (tree.body, *checks) for one in body if isinstance(one, ast.Assert)]
    num_asserts = sum(isinstance(node, ast.Assert) for node in ast.walk(tree))
    return 0 < num_asserts == len(reached) and all(_is_equality(one.test) for one in reached)


def _is_equality(test: ast.expr) -> bool:
    match test:
        case ast.Compare(ops=[ast.Eq()], comparators=[expected]):
            return not any(isinstance(node, ast.Call) for node in ast.walk(expected))
        case _:
            return isinstance(test, ast.Constant)


def rewrite_asserts(tree: ast.Module) -> int:
    """Rewrite asserts in place to expect another value, and return their number.

    ``f(x) == E``, ``is`` and an order comparison of ``abs(f(x) - E)`` and the like expect
    ``FAR(E)``, ``f(x) in E`` expects ``APART(E)``; other conditions are negated.
    Expected values alone are altered, never what a call of the candidate is given.
    """
    rewriter = _AssertRewriter()
    rewriter.visit(tree)
    ast.fix_missing_locations(tree)
    return rewriter.num_altered


class _AssertRewriter(ast.NodeTransformer):
    num_altered = 0

    def visit_Assert(self, node: ast.Assert) -> Any:  # type: ignore[explicit-override]
        if isinstance(node.test, ast.Constant):
            return node
        return self._decided(self.visit(_alter_condition(node.test)))

    def visit_Expr(self, node: ast.Expr) -> Any:  # type: ignore[explicit-override]
        """A check of unittest or NumPy for equality is an assert, too, which holds if it returns."""
        self.generic_visit(node)
        match node.value:
            case ast.Call(func=ast.Attribute(attr=name), args=[_, expected, *_] as given):
                if _EQUALS.fullmatch(name):
                    given[1] = _call_of(FAR, expected)
                    return self._decided(ast.Tuple([node.value], ast.Load()))
            case _:
                pass
        return node

    def _decided(self, condition: ast.expr) -> list[ast.stmt]:
        # A comparison that raises with the altered value does not hold.
        made: Any = ast.parse(
            "try: __holds__ = bool(0)\n"
            "except Exception: __holds__ = False\n"
            f"{DECIDE}(__holds__, {self.num_altered})"
        )
        made.body[0].body[0].value.args = [condition]
        self.num_altered += 1
        return list(made.body)

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:  # type: ignore[explicit-override]
        """Check the operands of order comparisons for NaN."""
        self.generic_visit(node)
        if any(isinstance(operator, _ORDERS) for operator in node.ops):
            node.left = _call_of(CHECKED, node.left)
            node.comparators = [_call_of(CHECKED, operand) for operand in node.comparators]
        return node


def _alter_condition(test: ast.expr) -> ast.expr:
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.Is()], comparators=[expected]):
            name = FILLED if isinstance(expected, ast.Call) else FAR
            test.comparators = [_call_of(name, expected)]
            return test
        case ast.Call(
            func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, expected, *_]
        ) if name in _NEAR:
            test.args[1] = _call_of(FAR, expected)
            return test
        case (
            ast.Call(func=ast.Attribute(attr="all"), args=[ast.Compare() | ast.Call() as inner])
            | ast.Call(func=ast.Attribute(value=ast.Compare() | ast.Call() as inner, attr="all"))
        ):
            # Of an array; of nothing it is true whatever is expected.
            return ast.Call(ast.Attribute(_alter_condition(inner), "all", ast.Load()), [], [])
        case ast.Compare(ops=[ast.In()], comparators=[expected]):
            test.comparators = [_call_of(APART, expected)]
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
        return ast.UnaryOp(op=ast.Not(), operand=test)
    difference.right = _call_of(FAR, difference.right)
    return test


def _difference(node: ast.expr, *, called: bool = False) -> ast.BinOp | None:
    """``a - b`` inside a call of the library such as ``abs``, not of the candidate."""
    match node:
        case ast.BinOp(op=ast.Sub()) if called:
            return node
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=parts) if (
            hasattr(builtins, name := root_name(function)) or name in _LIBRARIES
        ):
            called = True
        case _:
            return None
    found = (_difference(part, called=called) for part in parts)
    return next((one for one in found if one is not None), None)


def _call_of(name: str, argument: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[argument], keywords=[])
