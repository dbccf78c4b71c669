"""The negative control: the same tests, each assert asking for another value than it does.

An assert that holds then, too, does not compare what the program computed: the program cheats, or the
comparison is vacuous, as every order with NaN is.
"""

import ast
import builtins
import math
import re
from collections.abc import Callable
from typing import Any

ALTERED, FAR, APART = "__altered__", "__far__", "__apart__"
"""The names under which tests find :func:`altered`, :func:`far` and :func:`apart`."""
CHECKED, DECIDE = "__checked__", "__decide__"
_HOLDS = "__holds__"
_FAR = 10**9
"""Beyond any tolerance, in multiples of the value."""
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ORDER = re.compile("[<>]")
_SWALLOWS = re.compile(r"\b(try|with)\b")
_DEPTH = 3


class NoControlError(Exception):
    """The tests hold no assert, so none of them can be altered."""


class VacuousError(BaseException):
    """An assert holds whatever it asks for. Not an Exception: tests must not be able to catch it."""

    def __init__(self, what: str, *, is_proven: bool) -> None:
        super().__init__(what)
        self.is_proven = is_proven
        """Whether the program is to blame, rather than the tests."""


class Control:
    """What the altered asserts of one run came to.

    Args:
        sends_nan: Whether the candidate has sent a NaN that the tests do not ask for.
    """

    def __init__(self, sends_nan: Callable[[], bool]) -> None:
        self._sends_nan = sends_nan
        self._has_failed = False
        self.num_decided = 0
        self.vacuous: VacuousError | None = None

    def end(self) -> None:
        """The tests came to their end; that none of their failures was seen is a finding, too."""
        if self._has_failed and self.vacuous is None:
            self._is_vacuous("the tests swallow a failed assert", proven=True)

    def names(self) -> dict[str, Any]:
        """What :func:`alter_all` compiles into the tests, and builtins that look for NaN first."""
        return {
            ALTERED: altered,
            FAR: far,
            APART: apart,
            CHECKED: self._checked,
            DECIDE: self._decide,
            "min": self._ordering(min),
            "max": self._ordering(max),
            "sorted": self._ordering(sorted),
            "zip": self._zip,
        }

    def _decide(self, holds: object, *, fails: bool) -> None:
        """Take note of one altered assert; one that might be swallowed fails as it would have."""
        self.num_decided += 1
        if holds:
            raise self._is_vacuous("passes the tests with an expected value altered", proven=True)
        if self._has_failed:
            raise self._is_vacuous("the tests swallow a failed assert", proven=True)
        if fails:
            self._has_failed = True
            raise AssertionError("altered")

    def _checked(self, value: Any) -> Any:
        """The operand of an order; NaN makes every order false, so its negation true."""
        if _holds_nan(value, _DEPTH):
            raise self._is_vacuous("a comparison with NaN", proven=self._sends_nan())
        return value

    def _ordering(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: function(*map(self._checked, args), **kwargs)

    def _zip(self, *columns: Any, **options: Any) -> Any:
        lengths = {len(column) for column in columns if isinstance(column, list | tuple | str)}
        if len(lengths) > 1 and 0 in lengths:
            raise self._is_vacuous("the comparison of nothing with something", proven=False)
        return builtins.zip(*columns, **options)  # noqa: B905 - as the tests ask

    def _is_vacuous(self, what: str, *, proven: bool) -> VacuousError:
        self.vacuous = VacuousError(what, is_proven=proven)
        return self.vacuous


def alter_all(tests: str) -> ast.Module:
    """The tests with every assert asking for another value.

    ``f(x) == E`` and ``is`` ask for ``altered(E)``, ``f(x) in E`` for ``apart(E)``, an order of
    ``abs(f(x) - E)`` and the like for ``far(E)``; any other condition is negated.

    Raises:
        NoControlError: there is no assert.
        SyntaxError: they are not Python.
    """
    tree = ast.parse(tests)
    alteration = _Alteration(tree, tests)
    tree.body = alteration.altered(tree.body, swallowing=False)
    if not alteration.num_altered:
        raise NoControlError("no assert to alter")
    if _ORDER.search(tests):
        tree = ast.fix_missing_locations(_Orders().visit(tree))
    return tree


def altered(value: Any) -> Any:
    """Another value of the same kind, far from ``value``."""
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value)
    return "~"


def far(value: Any) -> Any:
    """Another number, farther from ``value`` than any tolerance."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    if isinstance(value, int | float | complex):
        return value + _FAR * (1 + abs(value))
    return altered(value)


def apart(container: Any) -> Any:
    """A container that holds none of what ``container`` does; the empty text is in every text."""
    return "~" if isinstance(container, str) else ["~"]


_CHANGES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (bool, lambda value: not value),
    (float, lambda value: value + 1 + abs(value) if math.isfinite(value) else 0.0),
    ((int, complex), lambda value: value + 1 + abs(value)),
    (str, lambda value: value + "~"),
    ((list, tuple), lambda value: [*value, "~"] if isinstance(value, list) else (*value, "~")),
    ((set, frozenset), lambda value: value ^ {"~"}),
    (dict, lambda value: {**value, "~": "~"}),
)


class _Alteration:
    """Replaces asserts. Only statements are gone through: every pass over a tree costs a run time."""

    def __init__(self, tree: ast.Module, tests: str) -> None:
        self.num_altered = 0
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
        if isinstance(node.test, ast.Constant):
            return [node]
        self.num_altered += 1
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


# As in crossed_exceptions, there is no typing.override.
class _Orders(ast.NodeTransformer):
    """Has the operands of orders looked at."""

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:  # type: ignore[explicit-override]
        self.generic_visit(node)
        if any(isinstance(operator, _ORDERS) for operator in node.ops):
            node.left = _call(CHECKED, node.left)
            node.comparators = [_call(CHECKED, operand) for operand in node.comparators]
        return node


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


def _holds_nan(value: object, depth: int) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if depth == 0 or not isinstance(value, list | tuple | set):
        return False
    return any(_holds_nan(part, depth - 1) for part in value)


def _call(name: str, argument: ast.expr) -> ast.Call:
    at = _place(argument)
    return ast.Call(func=_name(name, at), args=[argument], keywords=[], **at)
