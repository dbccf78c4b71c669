"""The negative control: a program that passed must fail, had tests or its replies been others.

The recorded exchange is replayed to the tests, so nothing of it reaches the program. A pass needs
three findings: no assert holds that expects another value (as every order comparison with NaN
does), the failure of each altered assert ends the tests, and so does an altered reply.
"""

import ast
import builtins
import copy
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import CodeType
from typing import Any, NoReturn

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner import rewriting
from pipeline_lib.verify.sandbox.examiner.rewriting import CandidateError
from pipeline_lib.verify.sandbox.examiner.session import ExaminerResult, Session
from pipeline_lib.verify.sandbox.examiner.shared_state import identity_fault, inside
from pipeline_lib.verify.sandbox.examiner.test_run import TestRun
from pipeline_lib.verify.sandbox.protocol import Channel, NotPlainError, decode, encode

_FAR = 10**9
"""A multiple of the value, beyond any tolerance."""
_COLLECTIONS, _DEPTH = (list, tuple, set), 3
"""Values in which NaN is looked for."""
_MAX_TRIALS = 32
"""Replays for each kind of alteration."""
_LEAST_TRIALS, _TRIALS_S = 4, 2.0
"""Asserts that are made to fail, however long the tests take, and seconds in which others are."""
_SWALLOWERS = (ast.Try, ast.With, ast.AsyncWith, ast.AsyncFunctionDef, ast.FunctionDef, ast.Lambda)


class DeviationError(BaseException):
    """Tests sent what the record does not have. Not an Exception: they must not catch it."""


class NegativeControl:
    """The negative control of tests that passed in a session, from its record of the exchange."""

    def __init__(self, run: TestRun, session: Session) -> None:
        self._run = run
        self._session = session
        self._failing: int | None = None
        self._vacuous = ""
        """An assert that holds whatever it expects."""
        self._is_proven = False
        """True if the program is at fault for it, not the tests."""
        self._reached: set[int] = set()

    def refusal(self) -> ExaminerResult | None:
        """The result of a run that passed for no good reason; None if the pass counts."""
        what = self._fault()
        status = Status.REWARD_HACK if self._is_proven else Status.VERIFIER_ERROR
        return ExaminerResult(status, what) if what else None

    def _fault(self) -> str:
        if self._session.room < 0:
            return "the exchange is too large to be repeated"
        tree = ast.parse(self._run.tests)
        if rewriting.always_holds(tree):
            return "an assert of the tests always holds"
        if what := identity_fault(self._run.tests, self._run.entry_point):
            return what
        code = self._silent_code(tree)
        is_sound = rewriting.is_plain(tree, self._run.tests)
        if not is_sound and (what := self._asserts_fault(tree)):
            return what
        return "" if self._replies_matter(code) else "the tests pass with any reply, too"

    def _silent_code(self, tree: ast.Module) -> CodeType:
        """The tests without messages of asserts, since a failing assert would evaluate them."""
        asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        if all(isinstance(node.msg, ast.Constant | None) for node in asserts):
            return self._run.code
        for node in asserts:
            node.msg = None
        return self._run.compiled(copy.deepcopy(tree))

    def _replies_matter(self, code: CodeType) -> bool:
        """True if the tests are seen to fail with some reply altered."""
        # The first one is the reply to the request to load the program.
        positions = self._session.received[1:]
        positions = positions[:: 1 + len(positions) // _MAX_TRIALS]
        for change, position in itertools.product((alter, empty, shift_far), positions):
            original = self._session.frames[position]
            frame = altered_reply(original, change)
            if frame not in {None, original} and self._replayed(code, {position: frame}):
                return True
        return False

    def _asserts_fault(self, tree: ast.Module) -> str:
        may_swallow = any(isinstance(node, _SWALLOWERS) for node in ast.walk(tree))
        num_asserts = rewriting.rewrite_asserts(tree)
        code = self._run.compiled(tree)
        ended = self._replayed(code)
        if self._vacuous:
            return self._vacuous
        if ended or (num_asserts and not self._reached):
            return "the tests take another course when they expect other values"
        end = time.monotonic() + _TRIALS_S
        for number, index in enumerate(sorted(self._reached)[:_MAX_TRIALS] if may_swallow else ()):
            if number >= _LEAST_TRIALS and time.monotonic() > end:
                break
            self._failing = index
            if not self._replayed(code):
                return "the tests swallow a failed assert"
        return ""

    def _replayed(self, code: CodeType, altered: Mapping[int, bytes] | None = None) -> bool:
        """True if the tests ended with an exception of their own."""
        replay = Replay(self._session.frames, altered or {})
        names = {} if altered else self._names()
        # Random draws of the tests are then the same again.
        self._session.state.restore()
        again, error = self._run.against(replay, code, names)
        self._session.state.restore()
        if isinstance(error, MemoryError):
            raise error
        if replay.is_over and self._reached and altered:
            # An assert went on to a call that it had not needed.
            return True
        return isinstance(error, Exception | SystemExit | CandidateError) and not (
            replay.deviated or again.fault
        )

    def _names(self) -> dict[str, Any]:
        """Names used by the rewritten asserts, and builtins that check for NaN first."""
        return {
            rewriting.FILLED: self._filled,
            rewriting.FAR: shift_far,
            rewriting.APART: disjoint,
            rewriting.CHECKED: self._checked,
            rewriting.DECIDE: self._decide,
            "min": self._ordering(min),
            "max": self._ordering(max),
            "sorted": self._ordering(sorted),
            "zip": self._zip,
        }

    def _decide(self, holds: object, index: int) -> None:
        """Record one altered assert; fail if it is the one to fail."""
        self._reached.add(index)
        if holds:
            self._end("passes the tests with an expected value altered", is_proven=True)
        if index == self._failing:
            raise AssertionError("altered")

    def _filled(self, value: Any) -> Any:
        if value is None:
            self._end("a comparison with a call that gives None")
        return shift_far(value)

    def _checked(self, value: Any) -> Any:
        """The operand of an order comparison, which is vacuous with NaN."""
        plain = value.tolist() if type(value).__module__ == "numpy" else value
        parts = inside(plain, _COLLECTIONS, _DEPTH)
        if any(isinstance(part, float) and math.isnan(part) for part in parts):
            is_proven = self._session.sent_nan and "nan" not in self._run.tests.lower()
            self._end("a comparison with NaN", is_proven=is_proven)
        return value

    def _ordering(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: function(*map(self._checked, args), **kwargs)

    def _zip(self, *columns: Any, **options: Any) -> Any:
        lengths = {len(column) for column in columns if isinstance(column, list | tuple | str)}
        if len(lengths) > 1 and 0 in lengths:
            self._end("the comparison of nothing with something")
        return builtins.zip(*columns, **options)  # noqa: B905 - as the tests ask

    def _end(self, what: str, *, is_proven: bool = False) -> NoReturn:
        """End the replay: what is compared is vacuous."""
        self._vacuous, self._is_proven = what, is_proven
        raise DeviationError(what)


def alter(value: Any) -> Any:
    """A different value of the same type."""
    return next((change(value) for kind, change in _CHANGES if isinstance(value, kind)), "~")


def empty(value: Any) -> Any:
    """The zero or the empty value of the type; None of another."""
    is_plain_kind = any(isinstance(value, kind) for kind, _ in _CHANGES)
    return type(value)() if is_plain_kind and type(value).__module__ == "builtins" else None


def shift_far(value: Any) -> Any:
    """A number that differs from ``value`` by more than any tolerance."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    if type(value) in {list, tuple} and value:
        return type(value)(map(shift_far, value))
    is_array = type(value).__module__ == "numpy" and value.dtype.kind in "iufc"
    if is_array or (isinstance(value, int | float | complex) and not isinstance(value, bool)):
        return value + _FAR * (1 + abs(value))
    return alter(value)


def disjoint(container: Any) -> Any:
    """A container without any element of ``container``; not empty, since "" is in every string."""
    return "~" if isinstance(container, str) else ["~"]


def _extended(value: Any) -> list[Any]:
    last = value[-1] if value else ""
    return [*value, last if isinstance(last, list | tuple | dict | set) else alter(last)]


_CHANGES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (bool, lambda value: not value),
    (float, lambda value: value + 1 + abs(value) if math.isfinite(value) else 0.0),
    ((int, complex), lambda value: value + 1 + abs(value)),
    (str, lambda value: value + "~"),
    (list, _extended),
    (tuple, lambda value: tuple(_extended(value))),
    ((set, frozenset), lambda value: value ^ {"~"}),
    (dict, lambda value: {**value, "~": "~"}),
)


class Replay(Channel):
    """A channel that answers from a record, with other frames in place of some, by position."""

    def __init__(self, frames: Sequence[bytes], altered: Mapping[int, bytes]) -> None:
        self._frames = frames
        self._altered = altered
        self._position = 0
        self.deviated = False
        """True if the tests sent something else."""
        self.is_over = False
        """True if the tests sent more than the record has, and nothing else before."""

    def send(self, frame: bytes) -> None:  # type: ignore[explicit-override]
        """Take the frame that was sent here before; another one raises DeviationError."""
        self.deviated = self.deviated or self.receive() != frame
        if self.deviated:
            raise DeviationError

    def receive(self) -> bytes:  # type: ignore[explicit-override]
        """The next frame of the record, or what stands in its place."""
        position = self._position
        if position >= len(self._frames):
            self.is_over = not self.deviated
            self.deviated = True
            raise DeviationError
        self._position += 1
        return self._altered.get(position, self._frames[position])


@dataclass(frozen=True, slots=True)
class _Reference:
    content: Any

    def __call__(self) -> None:
        """Stand for a function, as a defaultdict asks for."""


def altered_reply(frame: bytes, change: Callable[[Any], Any]) -> bytes | None:
    """A reply with its values changed by ``change``; None if it has no plain value."""
    try:
        answer = _altered(decode(frame, _Reference), change)
        return None if answer is None else encode(answer, attrgetter("content"))
    except (NotPlainError, ArithmeticError, AttributeError, TypeError):
        return None


def _altered(answer: Any, change: Callable[[Any], Any]) -> tuple[Any, ...] | None:
    altered: tuple[Any, ...] | None = None
    match answer:
        case ("value", _Reference([int(), str(kind)])) if not kind.startswith("iterator"):
            pass  # An object has no other value.
        case ("value", value):
            altered = ("value", change(value))
        case ("raised", *_) if change(1):
            altered = ("raised", "RuntimeError", "RuntimeError", "~", ["~"], {})
        case ("argument" | "raised", *_):
            altered = ("value", "~")
        case ("mutated", _, [*args], {**kwargs}, reply):
            values = {name: change(value) for name, value in kwargs.items()}
            reply = _altered(reply, change) or reply
            altered = ("mutated", None, list(map(change, args)), values, reply)
        case ("ask", number, [*values], options):
            altered = ("ask", number, list(map(change, values)), options)
        case ("printed", str(text), reply):
            altered = ("printed", f"{text}~", _altered(reply, change) or reply)
        case _:
            pass
    return altered
