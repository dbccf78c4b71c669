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

SWALLOWED = (
    *(StopIteration, StopAsyncIteration, GeneratorExit),
    *(IndexError, KeyError, AttributeError, TypeError),
)
"""Exceptions that some protocol of the language interprets as "at the end" or "absent"."""
_CATCHING, _ORIGINAL = "__catching__", "__genuine__"
_REWRAPPED, _WRAPPER = "__recrossed__", "__crossed__"
_MARK = "__crossed_as__"
_CATCHES_ITSELF = "unittest.case"
"""The library's ``with`` around a call in ``assertRaises(kind, function)``."""


class CandidateError(BaseException):
    """Wraps an exception raised by the candidate, ``original``."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(*original.args)
        self.original = original
        with contextlib.suppress(AttributeError, TypeError):
            setattr(original, _MARK, self)


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
    plain = {key: value for key, value in attributes.items() if key[:2] != "__"}
    vars(made).update(plain)
    return made


def to_candidate_error(error: BaseException) -> BaseException:
    """The exception to raise in the tests for an exception of the candidate."""
    return (
        CandidateError(error)
        if isinstance(error, SWALLOWED) and not _called_by_assert_raises()
        else error
    )


def _called_by_assert_raises() -> bool:
    frame = sys._getframe()  # noqa: SLF001 - importing inspect would slow every run
    package = __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
    return bool(frame.f_globals.get("__name__") == _CATCHES_ITSELF)


def unwrap_in_handlers(tree: ast.Module) -> ast.Module:
    """Rewrite every ``except`` and ``with`` of the tests to handle the original exception."""
    changed: ast.Module = _HandlerRewriter().visit(tree)
    return ast.fix_missing_locations(changed)


def handler_names() -> dict[str, Any]:
    """Names used in the code that :func:`unwrap_in_handlers` adds to the tests."""
    return {
        _CATCHING: _catching,
        _ORIGINAL: _unwrapped,
        _REWRAPPED: _rewrapped,
        _WRAPPER: CandidateError,
    }


def _catching(kinds: Any) -> Any:
    """The class that a handler for ``kinds`` must catch; evaluated while handling the exception."""
    error = sys.exc_info()[1]
    if not isinstance(error, CandidateError):
        return kinds
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    is_wanted = any(isinstance(k, type) and isinstance(error.original, k) for k in wanted)
    return CandidateError if is_wanted else ()


def _unwrapped(error: BaseException) -> BaseException:
    return error.original if isinstance(error, CandidateError) else error


def _rewrapped(error: BaseException) -> BaseException:
    wrapped = getattr(error, _MARK, error)
    return wrapped if isinstance(wrapped, BaseException) else error


# typing.override is not in Python 3.11, and the jail has no third-party packages.
class _HandlerRewriter(ast.NodeTransformer):
    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:  # type: ignore[explicit-override]
        self.generic_visit(node)
        if node.type is not None:
            node.type = _call(_CATCHING, node.type)
        if node.name is not None:
            caught = ast.Name(id=node.name, ctx=ast.Load())
            target = ast.Name(id=node.name, ctx=ast.Store())
            node.body.insert(0, ast.Assign(targets=[target], value=_call(_ORIGINAL, caught)))
        return node

    def visit_With(self, node: ast.With) -> ast.stmt:  # type: ignore[explicit-override]
        """Pass the original exception to the context managers, and wrap it again outside."""
        self.generic_visit(node)
        node.body = [_reraising(node.body, kind=_WRAPPER, through=_ORIGINAL)]
        return ast.copy_location(_reraising([node], kind="BaseException", through=_REWRAPPED), node)


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
