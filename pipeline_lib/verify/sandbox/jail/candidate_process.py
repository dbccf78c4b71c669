"""Candidate process: runs the program, then answers calls until the tests are done.

The examiner does not trust this process. Whatever the program does here, it can only send plain
values, which it could also have returned.
"""

import atexit
import builtins
import contextlib
import importlib
import io
import operator
import os
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from pipeline_lib.verify.sandbox.protocol import (
    Channel,
    ChannelClosedError,
    FrameTooLargeError,
    NotPlainError,
    Records,
    decode,
    encode,
)

MODULE = "candidate"
_MESSAGE_LENGTH = 300
_OWN_FRAMES = 40
_KEPT_PRINT = 1 << 16
_MUTABLE = (list, dict, set, bytearray)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_ITERATORS_OF = frozenset({"builtins", "itertools", "_collections", "_csv"})
_BUILTINS = ("len", "iter", "bool", "str", "repr", "hash", "round", "reversed")
_OPERATIONS: dict[str, Callable[..., object]] = {
    **{name: getattr(operator, name) for name in operator.__all__},
    **{name: getattr(builtins, name) for name in _BUILTINS},
    "enter": lambda manager: manager.__enter__(),
    "exit": lambda manager: manager.__exit__(None, None, None),
}


class _MalformedError(Exception):
    """The program cannot be loaded."""


def _customary(*modules: str) -> dict[str, object]:
    """Names that data sets import before a program, by name; of two modules the first has it."""
    imported = [importlib.import_module(name) for name in reversed(modules)]
    names: dict[str, object] = {}
    for module in imported:
        public = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        names |= {name: getattr(module, name) for name in public}
    names |= {module.__name__: module for module in imported}
    return {name: value for name, value in names.items() if not hasattr(builtins, name)}


_TYPES = _customary("typing")
_CUSTOMARY = _customary(
    *("typing", "collections", "itertools", "functools", "heapq", "bisect", "math", "string"),
    *("random", "re", "datetime", "operator"),
)
"""The names that the published programs of LeetCode use without an import."""


def serve_calls(program: bytes, channel: Channel) -> NoReturn:
    """Answer requests in order; the process ends when the channel closes."""
    candidate = CandidateServer(program, channel)
    # A thread would be refused: its function is called when it starts.
    vars(threading)["_start_new_thread"] = _call_now
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


def _call_now(function: Any, args: Any, kwargs: Any = None) -> int:
    function(*args, **(kwargs or {}))
    lock = getattr(getattr(function, "__self__", None), "_tstate_lock", None)
    if lock is not None and lock.locked():
        # The end of a thread would have released it.
        lock.release()
    return threading.get_ident()


class CandidateServer:
    """Executes requests on the program's module; non-plain values are referred to by number.

    The first request executes the program, which may call functions of the tests by ``channel``.
    """

    def __init__(self, program: bytes, channel: Channel | None = None) -> None:
        self._program = program
        self._channel = channel
        self._entry: Any = None
        self._shared: frozenset[str] = frozenset()
        self._records = Records(
            self._class_named,
            lambda kind: kind.__module__ == MODULE and kind.__name__ in self._shared,
        )
        self._lent: dict[int, Any] = {}
        self._loop: Any = None
        self._module = types.ModuleType(MODULE)
        self._handed_out: list[object] = []
        self._numbers: dict[int, int] = {}
        self._keeps_subclasses = False
        self._captures_stdout = False
        self._replies: dict[str, Callable[..., tuple[Any, ...]]] = {
            "name": self._name,
            "call": self._call,
            "next": self._next,
            "anext": self._anext,
        }
        self._values: dict[str, Callable[..., object]] = {
            "load": self._load,
            "run": self._run,
            "get": lambda target, name: getattr(self._target(target), name),
            "set": setattr,
            "method": lambda target, name, *args: getattr(target, name)(*args),
            "operate": lambda name, *args: _OPERATIONS[name](*args),
            "await": self._await,
            "capture_stdout": self._capture_stdout,
            "stdin": lambda text: _patch(
                "sys", "stdin", sys.__stdin__ if text is None else io.StringIO(text)
            ),
            "argv": lambda arguments: _patch("sys", "argv", arguments),
            "environ": _set_environment,
            "seed": _seed,
            "patch": _patch,
        }
        """Operations whose result is the value of the reply."""

    def answer(self, request: bytes) -> bytes:
        """Execute one request and encode the reply; never raises for what the program does."""
        operation, *operands = self._decode(request)
        return self._answer(operation, operands)

    def _answer(self, operation: str, operands: list[Any]) -> bytes:
        printed = io.StringIO() if self._captures_stdout else None
        try:
            with contextlib.redirect_stdout(printed) if printed else contextlib.nullcontext():
                answer = self._execute(operation, operands)
            if printed:
                answer = ("printed", printed.getvalue()[:_KEPT_PRINT], answer)
            return self._encode(answer, self._describe_value)
        except NotPlainError as error:
            return encode(("not_plain", str(error)), _zero)
        except _MalformedError as error:
            return encode(("malformed", str(error)[:_MESSAGE_LENGTH]), _zero)
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            return encode(("raised", *_describe_exception(error)), _zero)

    def _execute(self, operation: str, operands: list[Any]) -> tuple[Any, ...]:
        if operation in self._replies:
            return self._replies[operation](*operands)
        return self._reply(self._values[operation](*operands))

    def _encode(self, value: object, describe: Callable[[object], Any]) -> bytes:
        self._records.begin()
        return encode(value, lambda part: self._records.content(part) or describe(part))

    def _decode(self, frame: bytes) -> Any:
        self._records.begin()
        return decode(frame, self._referred)

    def _referred(self, content: Any) -> object:
        match content:
            case int():
                return self._handed_out[content]
            case ["lent", int(number), bool(iterates)]:
                return self._lent.setdefault(number, self._borrow(number, iterates=iterates))
            case _:
                return self._records.made(content)

    def _borrow(self, number: int, *, iterates: bool) -> Any:
        """A function that calls one of the tests, or an iterator over an iterator of them."""

        def lent(*args: object, **kwargs: object) -> Any:
            return self._ask(number, args, kwargs)[0]

        def items() -> Iterator[Any]:
            while item := self._ask(number, (), {}):
                yield item[0]

        return items() if iterates else lent

    def _ask(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The result in a list, which is empty at the end of an iterator."""
        assert self._channel is not None
        asked = ("ask", number, list(args), kwargs)
        self._channel.send(self._encode(asked, self._describe_value))
        while True:
            operation, *operands = self._decode(self._channel.receive())
            match operation, operands:
                case "told", [[*told]]:
                    return told
                case "failed", [str(kind), list(values)]:
                    raise getattr(builtins, kind)(*values)
                case _:
                    # Its function calls the program in turn.
                    self._channel.send(self._answer(operation, operands))

    def _class_named(self, name: str) -> type:
        found = self._module.__dict__.get(name)
        if isinstance(found, type):
            return found

        def absent(_: object, attribute: str) -> NoReturn:
            if attribute[:2] == "__":
                raise AttributeError(attribute)
            # A method of a class that only the tests define.
            raise NameError(f"name {name!r} is not defined")

        return type(name, (), {"__module__": MODULE, "__getattr__": absent})

    def _describe_value(self, value: object) -> list[object]:
        """Number and kind by which the examiner refers to a value that is not plain."""
        for lent, function in self._lent.items():
            if function is value:
                return ["lent", lent]
        # Objects are kept alive, so an id is never reused.
        number = self._numbers.setdefault(id(value), len(self._handed_out))
        if number == len(self._handed_out):
            self._handed_out.append(value)
        return [number, _kind(value)]

    def _reply(self, value: object) -> tuple[Any, ...]:
        if self._keeps_subclasses and type(value).__module__ == MODULE:
            return ("object", *self._describe_value(value))
        return ("value", value)

    def _target(self, target: Any) -> Any:
        """The function under test if it is given by its name."""
        return self._entry if isinstance(target, str) else target

    def _load(self, entry_point: str, is_class: bool, shared: list[str], prelude: str) -> bool:  # noqa: FBT001
        """Execute the program; True if its objects can be used, and not only their values."""
        sys.modules[MODULE] = self._module
        names = self._module.__dict__
        self._shared = frozenset(shared)
        code = self._compiled()
        owner, _, method = entry_point.partition("().")
        used = set(_names_in(code))
        customary = _CUSTOMARY if owner == "Solution" else _TYPES
        names.update({name: customary[name] for name in used & customary.keys()})
        if used & self._shared:
            exec(prelude, names)  # noqa: S102 - classes of the tests
        exec(code, names)  # noqa: S102 - the purpose of this jailed process
        found = names.get(owner)
        if not callable(found):
            raise _MalformedError(f"no function {owner!r} is defined")
        self._entry = getattr(found(), method) if method else found
        self._keeps_subclasses = is_class and isinstance(found, type)
        return self._keeps_subclasses

    def _run(self) -> None:
        """Run the program as a process runs it, with the input on descriptor 0."""
        code = self._compiled()
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            exec(code, main.__dict__)  # noqa: S102 - the purpose of this jailed process
        finally:
            atexit._run_exitfuncs()  # noqa: SLF001 - as at the end of a process
            sys.stdout.flush()

    def _compiled(self) -> types.CodeType:
        try:
            return compile(self._program, f"<{MODULE}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise _MalformedError(f"{type(error).__name__}: {error}") from error

    def _name(self, name: str) -> tuple[Any, ...]:
        value = self._module.__dict__.get(name)
        is_known = isinstance(value, type | types.FunctionType)
        return ("object", *self._describe_value(value)) if is_known else ("none",)

    def _call(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        given = [args, kwargs]
        before = self._encode(given, _zero)
        # A copy: the program must not change which of its arguments it appears to return.
        all_given = [*args, *kwargs.values()]
        result = self._target(target)(*args, **kwargs)
        # Of the mutable argument that is the result itself.
        same = (i for i, one in enumerate(all_given) if one is result)
        position = next(same, None) if isinstance(result, _MUTABLE) else None
        if self._encode(given, _zero) != before:
            return ("mutated", position, *given, self._reply(result))
        return self._reply(result) if position is None else ("argument", position)

    def _await(self, coroutine: Any) -> Any:
        if self._loop is None:
            import asyncio  # noqa: PLC0415 - too large for the warm interpreter

            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(coroutine)

    def _next(self, iterator: Iterator[object]) -> tuple[Any, ...]:
        try:
            return self._reply(next(iterator))
        except StopIteration:
            return ("end",)

    def _anext(self, iterator: Any) -> tuple[Any, ...]:
        async def step() -> Any:
            return await anext(iterator)

        try:
            return self._reply(self._await(step()))
        except StopAsyncIteration:
            return ("end",)

    def _capture_stdout(self, captures: bool) -> None:  # noqa: FBT001
        self._captures_stdout = captures


def _set_environment(variables: dict[str, str]) -> None:
    environment = os.environ  # noqa: TID251 - of the program
    environment.clear()
    environment.update(variables)


def _seed(state: tuple[Any, ...]) -> None:
    if isinstance(state[0], int):
        random.setstate(state)
    elif "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state)


def _patch(module: str, name: str, value: object) -> None:
    setattr(importlib.import_module(module), name, value)


def _kind(value: object) -> str:
    kind = type(value)
    if kind.__module__ in _ITERATORS_OF and isinstance(value, Iterator):
        return f"iterator:{kind.__name__}"
    if isinstance(value, types.CoroutineType | types.AsyncGeneratorType):
        return "coroutine" if isinstance(value, types.CoroutineType) else "async"
    if isinstance(value, _FUNCTIONS):
        return "function"
    owner = value if isinstance(value, type) else kind
    if owner.__module__ != MODULE:
        return f"library:{kind.__name__}"
    sized = any(name in vars(k) for k in kind.__mro__ for name in ("__len__", "__bool__"))
    return "sized" if sized and not isinstance(value, type) else "own"


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The global names and the attributes that a program uses."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


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
        encode((args, attributes), lambda _: None)
    except BaseException:  # noqa: BLE001 - likewise
        args, attributes = [message], {}
    return builtin, type(error).__name__, message, args, attributes
