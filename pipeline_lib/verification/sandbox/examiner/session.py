"""The examiner's session with one candidate process: requests and replies.

Every reply becomes plain data, a proxy, or the end of the run.
"""

import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.argument_mutations import (
    ArgumentMutations,
    overwrite,
)
from pipeline_lib.verification.sandbox.examiner.process_state import ProcessState
from pipeline_lib.verification.sandbox.examiner.proxies import END, Opaque, Role, make_proxy
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import (
    Raised,
    rebuild_exception,
    to_candidate_error,
)
from pipeline_lib.verification.sandbox.examiner.replay import Transport
from pipeline_lib.verification.sandbox.protocol.channel import (
    ChannelClosedError,
    FrameTooLargeError,
)
from pipeline_lib.verification.sandbox.protocol.codec import (
    SUBCLASS_MARK,
    NotPlainError,
    decode,
    encode,
)
from pipeline_lib.verification.sandbox.protocol.records import Records

DETAIL_LENGTH = 300
GONE = "the candidate closed its channel"
NO_ANSWER = "the candidate's answer is not one"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminerResult:
    """The verdict of the tests on the candidate."""

    status: Status
    detail: str


class CandidateFaultError(BaseException):
    """The run is over. Not an Exception: tests must not be able to catch it."""

    def __init__(self, result: ExaminerResult) -> None:
        super().__init__(result.detail)
        self.result = result


class Session:
    """Requests to one candidate process.

    Args:
        channel: Connection to it.
    """

    def __init__(self, channel: Transport) -> None:
        self._channel = channel
        self._proxies: dict[int, Any] = {}
        self.role = Role.RESULT
        """Role of objects returned by the function under test."""
        self.num_calls = 0
        self.last_raised: BaseException | None = None
        self.fault: CandidateFaultError | None = None
        self.borrows_class = False
        """True if tests build arguments with a class of the program."""
        self.may_leave_state = False
        """True if tests imported a module, whose state outlives them."""
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
        self.reads = ArgumentMutations("", "")
        self.state = ProcessState()
        self.entry_point = ""
        self.scope: dict[str, Any] = {}
        """Names that the tests define."""
        self._records = Records(
            self._class_named, lambda kind: kind is self._class_named(kind.__name__)
        )
        self._lent: list[Any] = []

    @property
    def met_objects(self) -> bool:
        """True if a result was an object other than a function or an iterator."""
        return any(isinstance(v, Opaque) and v.is_object for v in self._proxies.values())

    @property
    def met_proxies(self) -> bool:
        """True if a result remained in the candidate's process."""
        return bool(self._proxies)

    def _class_named(self, name: str) -> type | None:
        found = self.scope.get(name)
        is_own = isinstance(found, type) and found.__module__ == self.scope["__name__"]
        return found if is_own else None

    def call(
        self,
        target: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        role: Role | None = None,
    ) -> Any:
        """Call a function of the candidate; copy mutations that tests read to the arguments."""
        self.num_calls += 1
        if self.may_leave_state:
            for change in self.state.changes():
                self.request(*change)
        return self.request("call", target, list(args), kwargs, role=role)

    def request(self, *operands: Any, role: Role | None = None) -> Any:
        """Send one request and return the reply; an exception of the candidate is raised here.

        Args:
            operands: The operation and its operands.
            role: Role of an object in the reply; by default that of results.
        """
        role = self.role if role is None else role
        answer = self._exchange(operands, role)
        try:
            return self._handle_reply(answer, operands, role)
        except Exception as error:
            if error is self.last_raised:
                raise
            # An error caused by a malformed reply must not look like an exception of the tests.
            raise self.refuse(Status.CRASHED, NO_ANSWER) from error

    def refuse(self, status: Status, detail: str) -> CandidateFaultError:
        """End the run: every later request raises the returned exception."""
        if self.fault is None:
            result = ExaminerResult(status=status, detail=detail[:DETAIL_LENGTH])
            self.fault = CandidateFaultError(result)
        return self.fault

    def _handle_reply(self, answer: tuple[Any, ...], operands: tuple[Any, ...], role: Role) -> Any:
        match answer:
            case ("value", value):
                return value
            case ("argument", int(position)):
                return self._argument(operands, position)
            case ("mutated", int() | None as position, [*args], {**kwargs}, (*reply,)):
                return self._apply_mutations(operands, (position, args, kwargs), tuple(reply), role)
            case ("object", int(number), str(kind)):
                return self._proxy([number, kind], role)
            case ("printed", str(text), (*inner,)) if inner:
                sys.stdout.write(text)
                return self._handle_reply(tuple(inner), operands, role)
            case ("end",) if operands[0] in {"next", "anext"}:
                return END
            case ("raised", str(builtin), str(name), str(message), list(args), dict(attributes)):
                raise self._build_exception((builtin, name, message, args, attributes))
            case _:
                raise self._refuse_reply(answer)

    def _argument(self, operands: tuple[Any, ...], position: int) -> Any:
        match operands:
            case ("call", _, [*args], {**kwargs}) if 0 <= position < len(args) + len(kwargs):
                return [*args, *kwargs.values()][position]
            case _:
                raise self.refuse(Status.CRASHED, NO_ANSWER)

    def _apply_mutations(
        self,
        operands: tuple[Any, ...],
        left: tuple[Any, list[Any], dict[Any, Any]],
        reply: tuple[Any, ...],
        role: Role,
    ) -> Any:
        """The result of a call that mutated arguments; ``left``: position, args, kwargs after it."""
        position, args, kwargs = left
        value = self._handle_reply(reply, operands, role)
        originals = [*operands[2], *operands[3].values()]
        self.has_aliases = self.has_aliases or _has_alias(originals, set())
        mutated = [*args, *(kwargs.get(name) for name in operands[3])]
        positions_read = self.reads.positions_read(originals, returned_none=value is None)
        self.has_lost_mutation |= self.reads.has_lost
        for index, (original, content) in enumerate(zip(originals, mutated, strict=False)):
            if index in positions_read:
                overwrite(original, content)
        return originals[position] if position in positions_read else value

    def _build_exception(self, raised: Raised) -> BaseException:
        builtin, name, message, *_ = raised
        undefined = _UNDEFINED.match(message) if builtin == "NameError" else None
        if undefined is not None and undefined[1] in self.scope:
            return self.refuse(Status.VERIFIER_ERROR, f"only the tests define {undefined[1]!r}")
        missing = _MISSING.match(message) if builtin == "ModuleNotFoundError" else None
        if missing is not None and missing[1] in NOT_IN_JAIL:
            return self.refuse(Status.VERIFIER_ERROR, f"the jail has no {missing[1]}")
        error = rebuild_exception(raised, own=self._class_named(name))
        error.add_note(name)
        self.last_raised = to_candidate_error(error)
        if self.last_raised is not error:
            self.last_raised.add_note(name)
        return self.last_raised

    def _refuse_reply(self, answer: tuple[Any, ...]) -> CandidateFaultError:
        match answer:
            case ("not_plain", str(what)):
                return self.refuse(Status.VERIFIER_ERROR, f"the candidate gave {what}")
            case ("too_large",):
                return self.refuse(Status.VERIFIER_ERROR, "a value that is too large to return")
            case ("malformed", str(what)):
                return self.refuse(Status.MALFORMED, what)
            case ("none",):
                return self.refuse(Status.VERIFIER_ERROR, "the tests use a name that is undefined")
            case _:
                return self.refuse(Status.CRASHED, NO_ANSWER)

    def _exchange(self, operands: tuple[Any, ...], role: Role) -> tuple[Any, ...]:
        if self.fault is not None:
            raise self.fault
        try:
            self._send(operands)
        except (NotPlainError, FrameTooLargeError) as error:
            detail = f"the tests pass {error}"
            raise self.refuse(Status.VERIFIER_ERROR, detail) from error
        except TimeoutError as error:
            raise self.refuse(Status.TIMEOUT, "no call taken before the deadline") from error
        except ChannelClosedError as error:
            raise self.refuse(Status.CRASHED, GONE) from error
        while True:
            answer = self._decode_reply(lambda content: self._proxy(content, role))
            if answer[0] != "ask":
                return answer
            self._tell(answer)

    def _send(self, value: object) -> None:
        self._records.begin()
        self._channel.send(encode(value, self._reference))

    def _tell(self, answer: tuple[Any, ...]) -> None:
        """Call a function that the tests have lent, or take the next item of an iterator."""
        match answer:
            case ("ask", int(number), [*args], {**kwargs}) if 0 <= number < len(self._lent):
                lent = self._lent[number]
            case _:
                raise self.refuse(Status.CRASHED, NO_ANSWER)
        told: tuple[Any, ...]
        try:
            told = (
                "told",
                list(itertools.islice(lent, 1))
                if _iterates(lent)
                else [lent(*args, **{str(name): value for name, value in kwargs.items()})],
            )
        except Exception as error:  # noqa: BLE001 - the program may catch it
            kind = next(k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins")
            told = ("failed", kind, [str(one) for one in error.args])
        try:
            self._send(told)
        except (NotPlainError, FrameTooLargeError) as error:
            raise self.refuse(Status.VERIFIER_ERROR, f"the tests give {error}") from error

    def _reference(self, value: object) -> Any:
        """The reference that is sent in place of a value that is not plain; None if there is none."""
        if isinstance(value, Opaque):
            return value.number_
        if (record := self._records.content(value)) is not None:
            return record
        if not callable(value) and not _iterates(value):
            return None
        if not any(one is value for one in self._lent):
            self._lent.append(value)
        number = next(n for n, one in enumerate(self._lent) if one is value)
        return ["lent", number, _iterates(value)]

    def _decode_reply(self, reference: Callable[[Any], object]) -> tuple[Any, ...]:
        try:
            frame = self._channel.receive()
            self._records.begin()
            self.lost_subclass = self.lost_subclass or SUBCLASS_MARK in frame
            self.sent_nan = self.sent_nan or b"NaN" in frame
            answer = decode(frame, reference)
        except TimeoutError as error:
            raise self.refuse(Status.TIMEOUT, "no answer before the deadline") from error
        except FrameTooLargeError as error:
            # Its own side would have said so.
            raise self.refuse(Status.CRASHED, f"the candidate announced {error}") from error
        except ChannelClosedError as error:
            raise self.refuse(Status.CRASHED, GONE) from error
        except NotPlainError as error:
            raise self.refuse(Status.CRASHED, f"the candidate sent {error}") from error
        return answer if isinstance(answer, tuple) and answer else ("",)

    def _proxy(self, content: Any, role: Role) -> object:
        match content:
            case [int(number), str(kind)]:
                if number not in self._proxies:
                    self._proxies[number] = make_proxy(self, number, kind, role)
                return self._proxies[number]
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
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")
_MISSING = re.compile(r"No module named '(\w+)")


def _iterates(value: object) -> bool:
    return hasattr(type(value), "__next__") and not callable(value)


def _has_alias(value: Any, seen: set[int]) -> bool:
    """True if a container is there twice."""
    kind = type(value)
    if kind is tuple:
        return any(_has_alias(part, seen) for part in value)
    if kind is not list and kind is not dict:
        return False
    if id(value) in seen:
        return True
    seen.add(id(value))
    parts = value if kind is list else value.values()
    return any(_has_alias(part, seen) for part in parts)
