"""The examiner's session with one candidate process: requests and replies.

Every reply becomes plain data, a proxy, or the end of the run.
"""

import enum
import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner.rewriting import (
    Raised,
    rebuild_exception,
    to_candidate_error,
)
from pipeline_lib.verify.sandbox.examiner.shared_state import (
    ProcessState,
    inside,
    overwrite,
    read_names,
)
from pipeline_lib.verify.sandbox.protocol import (
    SUBCLASS_MARK,
    Channel,
    ChannelClosedError,
    FrameTooLargeError,
    NotPlainError,
    Records,
    decode,
    encode,
)

GONE = "the candidate closed its channel"
NO_ANSWER = "the candidate's answer is not one"
_RECORD_BYTES = 128 << 20
END = object()
"""The reply of an exhausted iterator."""


class Role(enum.Enum):
    """Operations that tests may perform on an object of the candidate."""

    RESULT = "a function's result: pass it back; call it, where it is a function"
    TESTED = "an object of the class under test: use it in every way but comparison"
    CLASS = "a class with which tests build arguments: call it, and read what tests set"
    BORROWED = "an argument in the making: link it, and read what tests put in"


@dataclass(frozen=True, slots=True)
class ExaminerResult:
    """The verdict of the tests on the candidate."""

    status: Status
    detail: str
    leaves_state: bool = False
    """True if the tests imported a module, whose state outlives them."""


class CandidateFaultError(BaseException):
    """The run is over. Not an Exception: tests must not be able to catch it."""


MakeProxy = Callable[["Session", int, str, Role], object]
"""Makes the proxy of an object from its session, number, kind and role."""


class Session:
    """Requests to one candidate process, or to the record of one."""

    def __init__(
        self, channel: Channel, make_proxy: MakeProxy, *, tests: str, entry_point: str
    ) -> None:
        self.tests, self.entry_point = tests, entry_point
        self.role = Role.RESULT
        """Role of objects returned by the function under test."""
        self.num_calls = 0
        self.last_raised: BaseException | None = None
        self.last_name = ""
        """Name of the candidate's own class of ``last_raised``."""
        self.fault: ExaminerResult | None = None
        self.met_objects = False
        """True if a result was an object other than a function or an iterator."""
        self.lost_subclass = False
        """True if an instance of a class of the program arrived as its plain base."""
        self.sent_nan = False
        """True if a reply contained NaN, or a string with that word."""
        self.has_lost_mutation = False
        """True if an argument was mutated that tests read, though not as the result."""
        self.was_questioned = False
        """True if tests asked what the function itself is, which its proxy does not show."""
        self.has_aliases = False
        """True if arguments were changed of which two parts were one object, unlike in their copy."""
        self.state = ProcessState(tests)
        self.scope: dict[str, Any] = {}
        """Names that the tests define."""
        self.proxies: dict[int, object] = {}
        """Values that remained in the candidate's process, by number."""
        self.numbers: dict[int, tuple[int, object]] = {}
        """Number of each proxy, and the proxy itself, by its id."""
        self.frames: list[bytes] = []
        self.received: list[int] = []
        """The exchange, as long as there is room for it, and positions of replies in it."""
        self.room = _RECORD_BYTES
        self._channel = channel
        self._make_proxy = make_proxy
        self._records = Records(
            self._class_named, lambda kind: kind is self._class_named(kind.__name__)
        )
        self._lent: list[Any] = []

    def _class_named(self, name: str) -> type | None:
        found = self.scope.get(name)
        is_own = isinstance(found, type) and found.__module__ == self.scope["__name__"]
        return found if is_own else None

    def call(self, role: Role, target: object, /, *args: object, **kwargs: object) -> Any:
        """Call a function of the candidate; copy mutations that tests read to the arguments."""
        self.num_calls += 1
        for change in self.state.changes():
            self.request(*change)
        return self.request("call", target, list(args), kwargs, role=role)

    def request(self, *operands: Any, role: Role | None = None) -> Any:
        """Send an operation with its operands, and return the reply or raise the exception in it.

        ``role`` is the role of an object in the reply.
        """
        if self.fault is not None:
            raise CandidateFaultError(self.fault.detail)
        role = self.role if role is None else role
        try:
            self._send("pass", operands)
            return self._handle_reply(self._receive(role), operands, role)
        except Exception as error:
            if error is self.last_raised or isinstance(error, MemoryError):
                raise
            # An error caused by a malformed reply must not look like an exception of the tests.
            is_sent = isinstance(error, FrameTooLargeError | NotPlainError)
            what = f"the candidate sent {error}" if is_sent else NO_ANSWER
            is_gone = isinstance(error, ChannelClosedError)
            raise self.refuse(Status.CRASHED, GONE if is_gone else what) from error

    def refuse(self, status: Status, detail: str) -> CandidateFaultError:
        """End the run: every later request raises such an exception, too."""
        self.fault = self.fault or ExaminerResult(status, detail)
        return CandidateFaultError(self.fault.detail)

    def _send(self, verb: str, value: object) -> None:
        """Send what the tests pass to the candidate or give it as a reply."""
        self._records.begin()
        try:
            frame = encode(value, self._reference)
            self._channel.send(frame)
            self._keep(frame)
        except (NotPlainError, FrameTooLargeError) as error:
            raise self.refuse(Status.VERIFIER_ERROR, f"the tests {verb} {error}") from error

    def _receive(self, role: Role) -> Any:
        """The reply to a request; what the candidate asks before is answered."""
        while True:
            frame = self._channel.receive()
            self.received.append(len(self.frames))
            self._keep(frame)
            self._records.begin()
            self.lost_subclass = self.lost_subclass or SUBCLASS_MARK in frame
            self.sent_nan = self.sent_nan or b"NaN" in frame
            match decode(frame, lambda content: self._referred(content, role)):
                case ("ask", int(number), [*args], {**kwargs}) if 0 <= number < len(self._lent):
                    self._send("give", self._told(self._lent[number], args, kwargs))
                case answer:
                    return answer

    def _keep(self, frame: bytes) -> None:
        self.room -= len(frame)
        if self.room >= 0:
            self.frames.append(frame)

    def _told(self, lent: Any, args: list[Any], kwargs: dict[Any, Any]) -> tuple[Any, ...]:
        """The result of a function that the tests have lent, or the next item of an iterator."""
        try:
            if _iterates(lent):
                return ("told", list(itertools.islice(lent, 1)))
            return ("told", [lent(*args, **{str(name): value for name, value in kwargs.items()})])
        except Exception as error:  # noqa: BLE001 - the program may catch it
            kind = next(k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins")
            return ("failed", kind, [str(one) for one in error.args])

    def _handle_reply(self, answer: Any, operands: tuple[Any, ...], role: Role) -> Any:
        given = [*operands[2], *operands[3].values()] if operands[0] == "call" else []
        match answer:
            case ("value", value):
                return value
            case ("argument", int(position)):
                return given[position]
            case ("mutated", position, [*args], {**kwargs}, reply):
                value = self._handle_reply(reply, operands, role)
                left = [*args, *map(kwargs.get, operands[3])]
                read = self._apply_mutations(given, left, value)
                return given[position] if position in read else value
            case ("object", int(number), str(kind)):
                return self._referred([number, kind], role)
            case ("printed", str(text), reply):
                sys.stdout.write(text)
                return self._handle_reply(reply, operands, role)
            case ("end",) if operands[0] in {"next", "anext"}:
                return END
            case ("raised", str(builtin), str(name), str(message), list(args), dict(attributes)):
                raise self._build_exception((builtin, name, message, args, attributes))
            case _:
                what, *details = answer
                status, detail = _REFUSALS.get(what, (Status.CRASHED, NO_ANSWER))
                raise self.refuse(status, detail.format(*details))

    def _apply_mutations(self, given: list[Any], left: list[Any], result: object) -> set[int]:
        """Copy what a call left of its arguments to those that tests read; their positions."""
        containers = [id(part) for part in inside(given) if type(part) in {list, dict}]
        self.has_aliases = self.has_aliases or len(set(containers)) < len(containers)
        read, is_lost = read_names(self.tests, self.entry_point).positions_read(given, result)
        self.has_lost_mutation = self.has_lost_mutation or is_lost
        for position in read:
            overwrite(given[position], left[position])
        return read

    def _build_exception(self, raised: Raised) -> BaseException:
        builtin, name, message, *_ = raised
        undefined = _UNDEFINED.match(message) if builtin == "NameError" else None
        if undefined is not None and undefined[1] in self.scope:
            return self.refuse(Status.VERIFIER_ERROR, f"only the tests define {undefined[1]!r}")
        missing = _MISSING.match(message) if builtin == "ModuleNotFoundError" else None
        if missing is not None and missing[1] in NOT_IN_JAIL:
            return self.refuse(Status.VERIFIER_ERROR, f"the jail has no {missing[1]}")
        error = rebuild_exception(raised, own=self._class_named(name))
        self.last_raised, self.last_name = to_candidate_error(error), name
        return self.last_raised

    def _reference(self, value: object) -> Any:
        """The reference that is sent in place of a value that is not plain; None if there is none."""
        if id(value) in self.numbers:
            return self.numbers[id(value)][0]
        if (record := self._records.content(value)) is not None:
            return record
        if not callable(value) and not _iterates(value):
            return None
        if not any(one is value for one in self._lent):
            self._lent.append(value)
        number = next(n for n, one in enumerate(self._lent) if one is value)
        return ["lent", number, _iterates(value)]

    def _referred(self, content: Any, role: Role) -> object:
        """The value for which a reference of the candidate stands."""
        match content:
            case [int(number), str(kind)]:
                if number not in self.proxies:
                    self.met_objects |= role is Role.RESULT and not kind.startswith(_NO_OBJECTS)
                    self.proxies[number] = self._make_proxy(self, number, kind, role)
                return self.proxies[number]
            case ["lent", int(number)] if 0 <= number < len(self._lent):
                return self._lent[number]
            case [str(), *_]:
                return self._records.made(content)
            case _:
                raise NotPlainError("a reference that is none")


NOT_IN_JAIL = frozenset(
    [
        *("cv2", "gmpy2", "joblib", "jax", "lxml", "matplotlib", "mpmath", "networkx", "nltk"),
        *("numba", "numpy", "pandas", "PIL", "pydantic", "regex", "requests", "scipy", "seaborn"),
        *("sklearn", "skimage", "sortedcontainers", "statsmodels", "sympy", "tensorflow", "torch"),
        *("tqdm", "yaml"),
    ]
)
"""Packages that an honest program may import elsewhere; the jail has only the standard library and, outside docker, NumPy."""
_REFUSALS = {
    "not_plain": (Status.VERIFIER_ERROR, "the candidate gave {}"),
    "too_large": (Status.VERIFIER_ERROR, "a value that is too large to return"),
    "malformed": (Status.MALFORMED, "{}"),
    "none": (Status.VERIFIER_ERROR, "the tests use a name that is undefined"),
}
"""Replies that are no answer."""
_NO_OBJECTS = ("function", "coroutine", "async", "iterator")
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")
_MISSING = re.compile(r"No module named '(\w+)")


def _iterates(value: object) -> bool:
    return hasattr(type(value), "__next__") and not callable(value)
