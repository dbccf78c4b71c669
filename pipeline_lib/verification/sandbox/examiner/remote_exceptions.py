"""Exceptions of the candidate, on the tests' side: only an ``except`` of the tests catches them.

Python's own machinery takes some exceptions for an answer: StopIteration ends ``map`` and ``sum``,
AttributeError is "absent" to ``getattr``, IndexError ends a sequence. A candidate that raises one of
these would so answer every test of that form. They arrive as :class:`CrossedError`, which nothing in
the interpreter looks for, and the handlers of the tests are compiled to see through it.
"""

import ast
import builtins
import contextlib
import sys
from dataclasses import dataclass
from typing import Any

SWALLOWED = (
    *(StopIteration, StopAsyncIteration, GeneratorExit),
    *(IndexError, KeyError, AttributeError, TypeError),
)
"""What some protocol of the language takes for "at the end" or "absent"."""
_CATCHING, _GENUINE, _RECROSSED, _CROSSED = (
    "__catching__",
    "__genuine__",
    "__recrossed__",
    "__crossed__",
)
_MARK = "__crossed_as__"
_CATCHES_ITSELF = "unittest.case"
"""The library's own ``with`` around a call, in ``assertRaises(kind, function)``."""


class CrossedError(BaseException):
    """The candidate raised ``genuine``."""

    def __init__(self, genuine: BaseException) -> None:
        super().__init__(*genuine.args)
        self.genuine = genuine
        with contextlib.suppress(AttributeError, TypeError):
            setattr(genuine, _MARK, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """What the candidate says of an exception: names and plain data."""

    builtin: str
    """The nearest builtin class."""
    name: str
    """Its own class."""
    message: str
    args: list[object]
    attributes: dict[str, object]


def rebuilt(raised: Raised) -> BaseException:
    """An exception of the builtin class, or of a subclass made here that has the same name."""
    kind = getattr(builtins, raised.builtin, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        kind = RuntimeError
    made: BaseException = RuntimeError(raised.message)
    # UnicodeDecodeError and its like want more than a message.
    with contextlib.suppress(TypeError, ValueError):
        named = kind
        if raised.name != kind.__name__:
            named = type(raised.name, (kind,), {"__str__": lambda _: raised.message})
        made = named(*raised.args)
    plain = {name: value for name, value in raised.attributes.items() if name[:2] != "__"}
    vars(made).update(plain)
    return made


def as_it_arrives(error: BaseException) -> BaseException:
    """What is raised among the tests for an exception of the candidate."""
    return CrossedError(error) if isinstance(error, SWALLOWED) and not _is_asked_for() else error


def _is_asked_for() -> bool:
    frame = sys._getframe()  # noqa: SLF001 - inspect would be imported by every run
    package = __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
    return bool(frame.f_globals.get("__name__") == _CATCHES_ITSELF)


def see_through(tree: ast.Module) -> ast.Module:
    """Make every ``except`` and ``with`` of the tests take a crossed exception for the genuine one."""
    changed: ast.Module = _Handlers().visit(tree)
    return ast.fix_missing_locations(changed)


def names_for_handlers() -> dict[str, Any]:
    """What :func:`see_through` compiles into the tests."""
    return {
        _CATCHING: _catching,
        _GENUINE: _genuine,
        _RECROSSED: _recrossed,
        _CROSSED: CrossedError,
    }


def _catching(kinds: Any) -> Any:
    """What a handler must catch to see what it asks for; evaluated while the exception is handled."""
    error = sys.exc_info()[1]
    if not isinstance(error, CrossedError):
        return kinds
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    is_wanted = any(isinstance(k, type) and isinstance(error.genuine, k) for k in wanted)
    return CrossedError if is_wanted else ()


def _genuine(error: BaseException) -> BaseException:
    return error.genuine if isinstance(error, CrossedError) else error


def _recrossed(error: BaseException) -> BaseException:
    crossed = getattr(error, _MARK, error)
    return crossed if isinstance(crossed, BaseException) else error


# typing.override is not in Python 3.11, and the jail has no third-party packages.
class _Handlers(ast.NodeTransformer):
    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:  # type: ignore[explicit-override]
        self.generic_visit(node)
        if node.type is not None:
            node.type = _call(_CATCHING, node.type)
        if node.name is not None:
            caught = ast.Name(id=node.name, ctx=ast.Load())
            target = ast.Name(id=node.name, ctx=ast.Store())
            node.body.insert(0, ast.Assign(targets=[target], value=_call(_GENUINE, caught)))
        return node

    def visit_With(self, node: ast.With) -> ast.stmt:  # type: ignore[explicit-override]
        """Its context managers are given the genuine exception; outside it is crossed again."""
        self.generic_visit(node)
        node.body = [_reraising(node.body, kind=_CROSSED, through=_GENUINE)]
        return ast.copy_location(_reraising([node], kind="BaseException", through=_RECROSSED), node)


def _reraising(body: list[ast.stmt], *, kind: str, through: str) -> ast.Try:
    """``try: body; except kind as e: raise through(e)``."""
    name = "__error__"
    error = ast.Name(id=name, ctx=ast.Load())
    handler = ast.ExceptHandler(
        type=ast.Name(id=kind, ctx=ast.Load()),
        name=name,
        body=[ast.Raise(exc=_call(through, error), cause=None)],
    )
    return ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[])


def _call(name: str, argument: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[argument], keywords=[])
