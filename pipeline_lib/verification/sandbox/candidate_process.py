"""The candidate's side: run the program, then answer calls until the tests are done.

Nothing here is trusted by the other side. Whatever the program does to this process, the most that
it can send is a plain value, as it could have by returning it.
"""

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from pipeline_lib.verification.sandbox.channel import (
    Channel,
    ChannelClosedError,
    FrameTooLargeError,
)
from pipeline_lib.verification.sandbox.plain_values import NotPlainError, decode, encode

MODULE = "candidate"
_MESSAGE_LENGTH = 300


def serve_calls(program: bytes, channel: Channel) -> NoReturn:
    """Answer requests in turn; the process ends with the channel."""
    candidate = Candidate(program)
    try:
        while True:
            request = channel.receive()
            try:
                channel.send(candidate.answer(request))
            except FrameTooLargeError:
                channel.send(encode(("too_large",), _zero))
    except ChannelClosedError:
        os._exit(0)


class Candidate:
    """The program's module, and the values that were handed out by number.

    Args:
        program: Its source; run with the first request.
    """

    def __init__(self, program: bytes) -> None:
        self._program = program
        self._module = ModuleType(MODULE)
        self._handed_out: list[object] = []
        self._operations: dict[str, Callable[..., tuple[Any, ...]]] = {
            "load": self._load,
            "name": self._name,
            "call": self._call,
            "get": self._get,
            "set": self._set,
        }

    def answer(self, request: bytes) -> bytes:
        """Do what is asked, and say what came of it; never raises for what the program does."""
        operation, *operands = decode(request, self._handed_out.__getitem__)
        try:
            return encode(self._operations[operation](*operands), self._number_of)
        except NotPlainError as error:
            return encode(("not_plain", str(error)), self._number_of)
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            return encode(("raised", *_described(error)), self._number_of)

    def _number_of(self, value: object) -> int:
        self._handed_out.append(value)
        return len(self._handed_out) - 1

    def _load(self, entry_point: str) -> tuple[Any, ...]:
        sys.modules[MODULE] = self._module
        try:
            source = self._program.decode("utf-8", "surrogatepass")
            code = compile(source, f"<{MODULE}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return ("malformed", f"{type(error).__name__}: {error}"[:_MESSAGE_LENGTH])
        exec(code, self._module.__dict__)  # noqa: S102 - this process exists for it, jailed
        if not callable(self._module.__dict__.get(entry_point)):
            return ("malformed", f"no function {entry_point!r} is defined")
        return ("value", None)

    def _name(self, name: str) -> tuple[Any, ...]:
        if name not in self._module.__dict__:
            return ("raised", "NameError", "NameError", f"name {name!r} is not defined")
        return ("value", self._module.__dict__[name])

    def _call(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        function = self._module.__dict__[target] if isinstance(target, str) else target
        before = encode(args, _zero)
        result = function(*args, **kwargs)
        if encode(args, _zero) == before:
            return ("value", result)
        return ("mutated", result, args)

    def _get(self, target: object, name: str) -> tuple[Any, ...]:
        return ("value", getattr(target, name))

    def _set(self, target: object, name: str, value: object) -> tuple[Any, ...]:
        setattr(target, name, value)
        return ("value", None)


def _zero(_: object) -> int:
    return 0


def _described(error: BaseException) -> tuple[str, str, str]:
    """The nearest builtin class of an exception, its own class, and its message."""
    builtin = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    try:
        message = str(error)[:_MESSAGE_LENGTH]
    except BaseException:  # noqa: BLE001 - its __str__ is the program's, too
        message = ""
    return builtin, type(error).__name__, message
