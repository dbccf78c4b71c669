"""Exceptions of the candidate, which only an ``except`` or ``with`` of the tests catches.

Python interprets some exceptions: StopIteration ends ``map`` and ``sum``, AttributeError means
"absent" to ``getattr``, IndexError ends a sequence. A candidate could pass tests by raising them.
They are raised as :class:`CandidateError`, which the interpreter does not interpret, and the
handlers of the tests are compiled to unwrap it.
"""

import ast
import builtins
import contextlib
import sys
from typing import Any

_SWALLOWED = (
    *(StopIteration, StopAsyncIteration, GeneratorExit),
    *(IndexError, KeyError, AttributeError, TypeError),
)
"""Exceptions that some protocol of the language interprets as "at the end" or "absent"."""
_CATCHING, _ORIGINAL, _MANAGED = "__catching__", "__genuine__", "__managed__"


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
            node.type = call_of(_CATCHING, node.type)
        if node.name is not None:
            target = ast.Name(id=node.name, ctx=ast.Store())
            original = call_of(_ORIGINAL, ast.Name(id=node.name, ctx=ast.Load()))
            node.body.insert(0, ast.Assign(targets=[target], value=original))
        return node

    def visit_With(self, node: ast.With) -> ast.With:  # type: ignore[explicit-override]
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = call_of(_MANAGED, item.context_expr)
        return node


def call_of(name: str, argument: ast.expr) -> ast.Call:
    """``name(argument)``."""
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[argument], keywords=[])
