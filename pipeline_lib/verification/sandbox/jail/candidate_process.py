"""Candidate process: runs the program, then answers calls until the tests are done.

The examiner does not trust this process. Whatever the program does here, it can only send plain
values, which it could also have returned.
"""

import contextlib
import io
import operator
import os
import random
import sys
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CoroutineType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, NoReturn

from pipeline_lib.verification.sandbox.protocol.channel import (
    Channel,
    ChannelClosedError,
    FrameTooLargeError,
)
from pipeline_lib.verification.sandbox.protocol.codec import (
    NotPlainError,
    decode,
    encode,
)

MODULE = "candidate"
_MESSAGE_LENGTH = 300
_OWN_FRAMES = 40
_KEPT_PRINT = 1 << 16
_MUTABLE = (list, dict, set, bytearray)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_ITERATORS_OF = frozenset({"builtins", "itertools", "_collections", "_csv"})
_OPERATIONS: dict[str, Callable[..., object]] = {
    **{name: getattr(operator, name) for name in operator.__all__},
    "len": len,
    "iter": iter,
    "bool": bool,
    "str": str,
    "repr": repr,
    "hash": hash,
    "enter": lambda manager: manager.__enter__(),
    "round": round,
    "reversed": reversed,
    "exit": lambda manager: manager.__exit__(None, None, None),
}


def serve_calls(program: bytes, channel: Channel) -> NoReturn:
    """Answer requests in order; the process ends when the channel closes."""
    candidate = CandidateServer(program)
    # The frames of this module must not reduce the recursion depth of the program.
    sys.setrecursionlimit(sys.getrecursionlimit() + _OWN_FRAMES)
    try:
        while True:
            request = channel.receive()
            try:
                channel.send(candidate.answer(request))
            except FrameTooLargeError:
                channel.send(encode(("too_large",), _zero))
    except ChannelClosedError:
        os._exit(0)


class CandidateServer:
    """Executes requests on the program's module; non-plain values are referred to by number.

    Args:
        program: Source; executed by the first request.
    """

    def __init__(self, program: bytes) -> None:
        self._program = program
        self._module = ModuleType(MODULE)
        self._handed_out: list[object] = []
        self._numbers: dict[int, int] = {}
        self._keeps_subclasses = False
        self._captures_stdout = False
        self._operations: dict[str, Callable[..., tuple[Any, ...]]] = {
            "load": self._load,
            "name": self._name,
            "call": self._call,
            "get": self._get,
            "set": self._set,
            "next": self._next,
            "operate": self._operate,
            "capture_stdout": self._capture_stdout,
            "seed": self._seed,
        }

    def answer(self, request: bytes) -> bytes:
        """Execute one request and encode the reply; never raises for what the program does."""
        operation, *operands = decode(request, self._handed_out.__getitem__)
        try:
            with self._redirect_stdout() as printed:
                answer = self._operations[operation](*operands)
            if printed is not None:
                answer = ("printed", printed.getvalue()[:_KEPT_PRINT], answer)
            return encode(answer, self._describe_value)
        except NotPlainError as error:
            return encode(("not_plain", str(error)), _zero)
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            return encode(("raised", *_describe_exception(error)), _zero)

    def _redirect_stdout(self) -> contextlib.AbstractContextManager[io.StringIO | None]:
        if self._captures_stdout:
            return contextlib.redirect_stdout(io.StringIO())
        return contextlib.nullcontext()

    def _describe_value(self, value: object) -> list[object]:
        """Number and kind by which the examiner refers to a value that is not plain."""
        # Objects are kept alive, so an id is never reused.
        number = self._numbers.setdefault(id(value), len(self._handed_out))
        if number == len(self._handed_out):
            self._handed_out.append(value)
        return [number, _kind(value)]

    def _reply(self, value: object) -> tuple[Any, ...]:
        if self._keeps_subclasses and type(value).__module__ == MODULE:
            return ("object", *self._describe_value(value))
        return ("value", value)

    def _load(self, entry_point: str, is_class: bool) -> tuple[Any, ...]:  # noqa: FBT001
        sys.modules[MODULE] = self._module
        try:
            source = self._program.decode("utf-8", "surrogatepass")
            code = compile(source, f"<{MODULE}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return ("malformed", f"{type(error).__name__}: {error}"[:_MESSAGE_LENGTH])
        exec(code, self._module.__dict__)  # noqa: S102 - the purpose of this jailed process
        if not callable(self._module.__dict__.get(entry_point)):
            return ("malformed", f"no function {entry_point!r} is defined")
        self._keeps_subclasses = is_class and isinstance(self._module.__dict__[entry_point], type)
        return ("value", self._keeps_subclasses)

    def _name(self, name: str) -> tuple[Any, ...]:
        value = self._module.__dict__.get(name)
        return ("object", *self._describe_value(value)) if isinstance(value, type) else ("none",)

    def _call(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        function = self._module.__dict__[target] if isinstance(target, str) else target
        given = [args, kwargs]
        before = encode(given, _zero)
        # A copy: the program must not change which of its arguments it appears to return.
        all_given = [*args, *kwargs.values()]
        result = function(*args, **kwargs)
        if encode(given, _zero) != before:
            return ("mutated", _position(result, all_given), *given, self._reply(result))
        position = _position(result, all_given)
        return self._reply(result) if position is None else ("argument", position)

    def _get(self, target: object, name: str) -> tuple[Any, ...]:
        target = self._module.__dict__[target] if isinstance(target, str) else target
        return self._reply(getattr(target, name))

    def _set(self, target: object, name: str, value: object) -> tuple[Any, ...]:
        setattr(target, name, value)
        return ("value", None)

    def _next(self, iterator: Iterator[object]) -> tuple[Any, ...]:
        try:
            return self._reply(next(iterator))
        except StopIteration:
            return ("end",)

    def _operate(self, name: str, *operands: object) -> tuple[Any, ...]:
        return self._reply(_OPERATIONS[name](*operands))

    def _capture_stdout(self, captures: bool) -> tuple[Any, ...]:  # noqa: FBT001
        self._captures_stdout = captures
        return ("value", None)

    def _seed(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        random.setstate(state)
        return ("value", None)


def _position(result: object, given: list[Any]) -> int | None:
    """Index of the mutable argument that is the result itself, or None."""
    if not isinstance(result, _MUTABLE):
        return None
    return next((i for i, argument in enumerate(given) if argument is result), None)


def _kind(value: object) -> str:
    kind = type(value)
    if kind.__module__ in _ITERATORS_OF and isinstance(value, Iterator):
        return f"iterator:{kind.__name__}"
    if isinstance(value, CoroutineType):
        return "coroutine"
    if isinstance(value, _FUNCTIONS):
        return "function"
    owner = value if isinstance(value, type) else kind
    if owner.__module__ != MODULE:
        return f"library:{kind.__name__}"
    sized = any(name in vars(k) for k in kind.__mro__ for name in ("__len__", "__bool__"))
    return "sized" if sized and not isinstance(value, type) else "own"


def _zero(_: object) -> int:
    return 0


def _describe_exception(error: BaseException) -> tuple[str, str, str, list[Any], dict[str, Any]]:
    """Nearest builtin class, class name, message, arguments and attributes of an exception."""
    builtin = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    try:
        message = str(error)[:_MESSAGE_LENGTH]
    except BaseException:  # noqa: BLE001 - its __str__ is the program's, too
        message = ""
    try:
        args, attributes = list(error.args), dict(vars(error))
        encode((args, attributes), _refused)
    except BaseException:  # noqa: BLE001 - likewise
        args, attributes = [message], {}
    return builtin, type(error).__name__, message, args, attributes


def _refused(_: object) -> None:
    return None
