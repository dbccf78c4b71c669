"""The tests' side of one candidate process: requests, answers, and what became of the last one.

Whatever an answer holds, what comes of it is plain data, a stand-in of ours, or the end of the run.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.argument_mutations import MutationReads, overwrite
from pipeline_lib.verification.sandbox.examiner.process_state import SharedState
from pipeline_lib.verification.sandbox.examiner.proxies import END, Opaque, Role, stand_in
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import (
    Raised,
    as_it_arrives,
    rebuilt,
)
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

DETAIL_LENGTH = 300
GONE = "the candidate closed its channel"
NO_ANSWER = "the candidate's answer is not one"


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


class Link(Protocol):
    """What leads to the candidate."""

    def send(self, frame: bytes) -> None:
        """Send one request."""

    def receive(self) -> bytes:
        """Receive its answer."""


class Session:
    """Requests to one candidate process.

    Args:
        channel: Leads to it.
    """

    def __init__(self, channel: Link) -> None:
        self._channel = channel
        self._stand_ins: dict[int, Any] = {}
        self.role = Role.RESULT
        """What an object may be used for that the function under test gives."""
        self.num_calls = 0
        self.last_raised: BaseException | None = None
        self.fault: CandidateFaultError | None = None
        self.lends = False
        """Whether tests build arguments with a class of the program's."""
        self.may_leave_traces = False
        """Whether tests got hold of a module, and so of something that outlives them."""
        self.was_stripped = False
        """Whether a value arrived as the base of a class of the program's own."""
        self.sent_nan = False
        """Whether a NaN came across, or perhaps only a text that holds the word."""
        self.lost_change = False
        """Whether an argument was changed that tests read, though not as the result."""
        self.reads = MutationReads("", "")
        self.state = SharedState()

    @property
    def met_objects(self) -> bool:
        """Whether a result was an object, rather than plain data, a function or an iterator."""
        return any(isinstance(v, Opaque) and v.is_object for v in self._stand_ins.values())

    def call(
        self,
        target: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        role: Role | None = None,
    ) -> Any:
        """Call a function of the candidate; a changed argument is changed here where tests ask."""
        self.num_calls += 1
        if self.may_leave_traces:
            for change in self.state.changes():
                self.request(*change)
        return self.request("call", target, list(args), kwargs, role=role)

    def request(self, *operands: Any, role: Role | None = None) -> Any:
        """One request and its answer; an exception of the candidate is raised again here.

        Args:
            operands: The operation and what it needs.
            role: Of an object that comes back; by default that of the results.
        """
        answer = self._exchange(operands, self.role if role is None else role)
        if answer[0] == "value" and len(answer) == 2:
            return answer[1]
        try:
            return self._unusual(answer, operands, self.role if role is None else role)
        except Exception as error:
            if error is self.last_raised:
                raise
            # Nothing that an answer makes go wrong here may look like an exception of the tests.
            raise self.refuse(Status.CRASHED, NO_ANSWER) from error

    def refuse(self, status: Status, detail: str) -> CandidateFaultError:
        """End the run: from now on every request raises what this returns."""
        if self.fault is None:
            finding = Finding(status=status, detail=detail[:DETAIL_LENGTH])
            self.fault = CandidateFaultError(finding)
        return self.fault

    def _unusual(self, answer: tuple[Any, ...], operands: tuple[Any, ...], role: Role) -> Any:
        match answer:
            case ("argument", int(position)):
                return self._argument(operands, position)
            case ("mutated", int() | None as position, [*args], {**kwargs}, (*reply,)):
                return self._changed(operands, (position, args, kwargs), tuple(reply), role)
            case ("object", int(number), str(kind)):
                return self._stand_in([number, kind], role)
            case ("printed", str(text), (*inner,)) if inner:
                sys.stdout.write(text)
                return self._after(tuple(inner), operands, role)
            case ("end",) if operands[0] == "next":
                return END
            case ("raised", str(), str(), str(), list(), dict()):
                raise self._raised(answer)
            case _:
                raise self._ended(answer)

    def _after(self, answer: tuple[Any, ...], operands: tuple[Any, ...], role: Role) -> Any:
        match answer:
            case ("value", value):
                return value
            case _:
                return self._unusual(answer, operands, role)

    def _argument(self, operands: tuple[Any, ...], position: int) -> Any:
        match operands:
            case ("call", _, [*args], {**kwargs}) if 0 <= position < len(args) + len(kwargs):
                return [*args, *kwargs.values()][position]
            case _:
                raise self.refuse(Status.CRASHED, NO_ANSWER)

    def _changed(
        self,
        operands: tuple[Any, ...],
        left: tuple[Any, list[Any], dict[Any, Any]],
        reply: tuple[Any, ...],
        role: Role,
    ) -> Any:
        """The result of a call that changed its arguments; ``left`` is what it left of them."""
        position, args, kwargs = left
        value = self._after(reply, operands, role)
        ours = [*operands[2], *operands[3].values()]
        theirs = [*args, *(kwargs.get(name) for name in operands[3])]
        carried = self.reads.carried(ours, gives_nothing=value is None)
        self.lost_change |= self.reads.is_lost
        for index, (mine, left_over) in enumerate(zip(ours, theirs, strict=False)):
            if index in carried:
                overwrite(mine, left_over)
        return ours[position] if position in carried else value

    def _raised(self, answer: tuple[Any, ...]) -> BaseException:
        _, builtin, name, message, args, attributes = answer
        missing = _MISSING.match(message) if builtin == "ModuleNotFoundError" else None
        if missing is not None and missing[1] in NOT_IN_THE_JAIL:
            return self.refuse(Status.VERIFIER_ERROR, f"the jail has no {missing[1]}")
        error = rebuilt(
            Raised(builtin=builtin, name=name, message=message, args=args, attributes=attributes)
        )
        error.add_note(name)
        self.last_raised = as_it_arrives(error)
        if self.last_raised is not error:
            self.last_raised.add_note(name)
        return self.last_raised

    def _ended(self, answer: tuple[Any, ...]) -> CandidateFaultError:
        match answer:
            case ("not_plain", str(what)):
                # It nests too deeply: Python could not compare it either.
                return self.refuse(Status.WRONG, f"the candidate gave {what}")
            case ("too_large",):
                return self.refuse(Status.OUTPUT_LIMIT, "a value that is too large to return")
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
            self._channel.send(encode(operands, _number_of))
        except (NotPlainError, FrameTooLargeError) as error:
            detail = f"the tests pass {error}"
            raise self.refuse(Status.VERIFIER_ERROR, detail) from error
        except TimeoutError as error:
            raise self.refuse(Status.TIMEOUT, "no call taken before the deadline") from error
        except ChannelClosedError as error:
            raise self.refuse(Status.CRASHED, GONE) from error
        return self._received(lambda content: self._stand_in(content, role))

    def _received(self, reference: Callable[[Any], object]) -> tuple[Any, ...]:
        try:
            frame = self._channel.receive()
            self.was_stripped = self.was_stripped or SUBCLASS_MARK in frame
            self.sent_nan = self.sent_nan or b"NaN" in frame
            answer = decode(frame, reference)
        except TimeoutError as error:
            raise self.refuse(Status.TIMEOUT, "no answer before the deadline") from error
        except FrameTooLargeError as error:
            raise self.refuse(Status.OUTPUT_LIMIT, f"a value too large ({error})") from error
        except ChannelClosedError as error:
            raise self.refuse(Status.CRASHED, GONE) from error
        except NotPlainError as error:
            raise self.refuse(Status.CRASHED, f"the candidate sent {error}") from error
        return answer if isinstance(answer, tuple) and answer else ("",)

    def _stand_in(self, content: Any, role: Role) -> object:
        match content:
            case [int(number), str(kind)]:
                if number not in self._stand_ins:
                    self._stand_ins[number] = stand_in(self, number, kind, role)
                return self._stand_ins[number]
            case _:
                raise NotPlainError("a reference that is none")


NOT_IN_THE_JAIL = frozenset(
    [
        "cv2",
        "gmpy2",
        "joblib",
        "jax",
        "lxml",
        "matplotlib",
        "mpmath",
        "networkx",
        "nltk",
        "numba",
        "numpy",
        "pandas",
        "PIL",
        "pydantic",
        "pytest",
        "regex",
        "requests",
        "scipy",
        "seaborn",
        "sklearn",
        "skimage",
        "sortedcontainers",
        "statsmodels",
        "sympy",
        "tensorflow",
        "torch",
        "tqdm",
        "yaml",
    ]
)
"""Packages that an honest program may import elsewhere; the jail has the standard library alone."""
_MISSING = re.compile(r"No module named '(\w+)")


def _number_of(value: object) -> int | None:
    return value.number_ if isinstance(value, Opaque) else None
