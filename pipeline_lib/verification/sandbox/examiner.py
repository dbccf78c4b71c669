"""The tests' side: run trusted tests against a candidate that lives in another process.

Tests see the candidate's functions as proxies. Only plain values come back, so the comparison that
decides is made here, between exact builtin objects, by code that the candidate cannot reach.
"""

import ast
import builtins
import contextlib
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol

from pipeline_lib.records import Status
from pipeline_lib.verification.sandbox.channel import (
    ChannelClosedError,
    FrameTooLargeError,
)
from pipeline_lib.verification.sandbox.negative_control import ALTERED, alter_one, altered
from pipeline_lib.verification.sandbox.plain_values import NotPlainError, decode, encode

_TESTS_FILE = "<tests>"
_DETAIL_LENGTH = 300
GONE = "the candidate closed its channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the tests say about the candidate."""

    status: Status
    detail: str


class CandidateFaultError(BaseException):
    """The candidate can answer no more. Not an Exception: tests must not be able to catch it."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.detail)
        self.finding = finding


class Opaque:
    """A value that stays with the candidate, such as a tree's node: its attributes can be used.

    It has no equality, truth, order or length here, since all of those would be the candidate's.
    """

    __slots__ = ("_number", "_session")

    def __init__(self, session: "Session", number: int) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call it, over there."""
        return self._session.call(self, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return self._session.request("get", self, name)

    # typing.override is not in Python 3.11, and the jail has no third-party packages.
    def __setattr__(  # type: ignore[explicit-override]
        self, name: str, value: object
    ) -> None:
        self._session.request("set", self, name, value)

    def _refuse(self, *_: object) -> Any:
        raise NotPlainError("the candidate's value is not plain, so it cannot be judged")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class Link(Protocol):
    """What leads to the candidate."""

    def send(self, frame: bytes) -> None:
        """Send one request."""

    def receive(self) -> bytes:
        """Receive its answer."""


class Session:
    """Requests to one candidate process, and what became of the last one."""

    def __init__(self, channel: Link) -> None:
        self._channel = channel
        self.num_calls = 0
        self.last_raised: Exception | None = None
        self.fault: CandidateFaultError | None = None
        self.may_leave_traces = False
        """Whether tests got hold of a module, and so of something that outlives them."""

    def call(self, target: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Call a function of the candidate; containers that it changed are changed here, too."""
        self.num_calls += 1
        return self.request("call", target, list(args), kwargs)

    def request(self, *operands: Any) -> Any:
        """One request and its answer; an exception of the candidate is raised again here."""
        kind, *content = self._exchange(operands)
        match kind, content:
            case "value", [value]:
                return value
            case "mutated", [value, [*args]]:
                for ours, theirs in zip(operands[2], args, strict=False):
                    _overwrite(ours, theirs)
                return value
            case "raised", [str(builtin), str(name), str(message)]:
                self.last_raised = _exception(builtin, name, message)
                raise self.last_raised
            case "not_plain", [str(what)]:
                raise NotPlainError(f"the candidate gave {what}")
            case "too_large", []:
                raise self._failed(Status.OUTPUT_LIMIT, "a value that is too large to return")
            case "malformed", [str(what)]:
                raise self._failed(Status.MALFORMED, what)
            case _:
                raise self._failed(Status.CRASHED, "the candidate's answer is not one")

    def _exchange(self, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.fault is not None:
            raise self.fault
        try:
            self._channel.send(encode(operands, _number_of))
        except (NotPlainError, FrameTooLargeError) as error:
            detail = f"the tests pass {error}"
            raise self._failed(Status.VERIFIER_ERROR, detail) from error
        except TimeoutError as error:
            raise self._failed(Status.TIMEOUT, "no call taken before the deadline") from error
        except ChannelClosedError as error:
            raise self._failed(Status.CRASHED, GONE) from error
        return self._received()

    def _received(self) -> tuple[Any, ...]:
        try:
            answer = decode(self._channel.receive(), lambda number: Opaque(self, number))
        except TimeoutError as error:
            raise self._failed(Status.TIMEOUT, "no answer before the deadline") from error
        except FrameTooLargeError as error:
            raise self._failed(Status.OUTPUT_LIMIT, f"a value too large ({error})") from error
        except ChannelClosedError as error:
            raise self._failed(Status.CRASHED, GONE) from error
        except NotPlainError as error:
            raise self._failed(Status.CRASHED, f"the candidate sent {error}") from error
        return answer if isinstance(answer, tuple) and answer else ("",)

    def _failed(self, status: Status, detail: str) -> CandidateFaultError:
        self.fault = CandidateFaultError(Finding(status=status, detail=detail[:_DETAIL_LENGTH]))
        return self.fault


def examine(session: Session, *, entry_point: str, tests: str, alter: bool) -> Finding:
    """Run ``tests`` against the candidate behind ``session``.

    Args:
        session: A candidate that has not been asked anything yet.
        entry_point: The function under test.
        tests: Top-level asserts that call it by name, or a definition of ``check(candidate)``.
        alter: Change one expected value first: the negative control, which must not pass.
    """
    try:
        session.request("load", entry_point)
        _run_tests(session, entry_point=entry_point, tests=tests, alter=alter)
    except CandidateFaultError as error:
        return error.finding
    except BaseException as error:  # noqa: BLE001 - whatever tests raise is a finding
        return session.fault.finding if session.fault else _judged(error, session)
    if session.fault is not None:
        return session.fault.finding
    if session.num_calls == 0:
        return _finding(Status.VERIFIER_ERROR, "the tests never call the candidate")
    return _finding(Status.CORRECT, "")


def _run_tests(session: Session, *, entry_point: str, tests: str, alter: bool) -> None:
    def candidate(*args: object, **kwargs: object) -> Any:
        return session.call(entry_point, args, kwargs)

    code = compile(alter_one(ast.parse(tests)) if alter else tests, _TESTS_FILE, "exec")
    names = {"__name__": "tests", "__builtins__": _Names(session), entry_point: candidate}
    exec(code, names)  # noqa: S102 - trusted, and jailed anyhow
    check = names.get("check")
    if isinstance(check, FunctionType) and check is not candidate:
        check(candidate)


class _Names(dict[str, Any]):
    """The builtins of tests, and behind them what tests use without defining it.

    Such a name is a module of the standard library, ours; else whatever the candidate calls so.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(vars(builtins))
        self[ALTERED] = altered
        self["__import__"] = self._import
        self._session = session

    def _import(self, *arguments: Any, **options: Any) -> Any:
        self._session.may_leave_traces = True
        return __import__(*arguments, **options)

    def __missing__(self, name: str) -> Any:
        known = name in sys.stdlib_module_names
        value = self._import(name) if known else self._session.request("name", name)
        self[name] = value
        return value


def _judged(error: BaseException, session: Session) -> Finding:
    if isinstance(error, MemoryError):
        return _finding(Status.MEMORY, "out of memory")
    described = f"{type(error).__name__}: {error}"
    if error is session.last_raised:
        # The note is the name of the candidate's own class.
        return _finding(Status.CRASHED, f"{error.__notes__[0]}: {error}")
    if isinstance(error, AssertionError | NotPlainError):
        return _finding(Status.WRONG, _failed_line(error) or described)
    if session.num_calls == 0:
        return _finding(Status.VERIFIER_ERROR, f"the tests do not run: {described}")
    return _finding(Status.WRONG, f"the tests cannot use the candidate's value: {described}")


def _failed_line(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == _TESTS_FILE]
    return f"{type(error).__name__} in line {frames[-1].lineno} of the tests" if frames else ""


def _finding(status: Status, detail: str) -> Finding:
    return Finding(status=status, detail=" ".join(detail.split())[:_DETAIL_LENGTH])


def _number_of(value: object) -> int | None:
    if type(value) is Opaque:
        number: int = object.__getattribute__(value, "_number")
        return number
    return None


def _exception(builtin: str, name: str, message: str) -> Exception:
    kind = getattr(builtins, builtin, None)
    made: Exception = RuntimeError(message)
    if isinstance(kind, type) and issubclass(kind, Exception):
        # UnicodeDecodeError and its like want more than a message.
        with contextlib.suppress(TypeError):
            made = kind(message)
    made.add_note(name)
    return made


_OVERWRITERS: dict[type, Callable[[Any, Any], None]] = {
    list: lambda ours, theirs: ours.__setitem__(slice(None), theirs),
    dict: lambda ours, theirs: (ours.clear(), ours.update(theirs))[0],
    set: lambda ours, theirs: (ours.clear(), ours.update(theirs))[0],
}


def _overwrite(ours: object, theirs: object) -> None:
    """Give our container the content that the candidate left in its copy."""
    overwriter = _OVERWRITERS.get(type(ours))
    if overwriter is not None and type(theirs) is type(ours):
        overwriter(ours, theirs)
