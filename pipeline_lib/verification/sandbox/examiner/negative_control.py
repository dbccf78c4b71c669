"""The negative control: a program that passed must fail, had tests or its replies been others.

The recorded exchange is replayed to the tests, so nothing of it reaches the program. A pass needs
three findings: no assert holds that expects another value (as every order comparison with NaN
does), the failure of each altered assert ends the tests, and so does an altered reply.
"""

import ast
import builtins
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.assert_rewriting import (
    ALTERED,
    APART,
    CHECKED,
    DECIDE,
    FAR,
    FILLED,
    always_holds,
    drop_messages,
    is_plain,
    rewrite_asserts,
)
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import CandidateError
from pipeline_lib.verification.sandbox.examiner.replay import Recorder, Replay, altered_reply
from pipeline_lib.verification.sandbox.examiner.session import ExaminerResult, Session
from pipeline_lib.verification.sandbox.examiner.test_run import TestRun

_FAR = 10**9
"""A multiple of the value, beyond any tolerance."""
_DEPTH = 3
_MAX_TRIALS = 32
"""Replays for each kind of alteration."""
_LEAST_TRIALS, _TRIALS_S = 4, 2.0
"""Asserts that are made to fail, however long the tests take, and seconds in which others are."""
_SWALLOWERS = (ast.Try, ast.With, ast.AsyncWith, ast.AsyncFunctionDef, ast.FunctionDef, ast.Lambda)


class VacuousError(BaseException):
    """An assert holds whatever it expects. Not an Exception: tests must not be able to catch it."""

    def __init__(self, what: str, *, is_proven: bool) -> None:
        super().__init__(what)
        self.is_proven = is_proven
        """True if the program is at fault, not the tests."""


def refuse_pass(run: TestRun, session: Session, recorder: Recorder) -> ExaminerResult | None:
    """The result of a run that passed for no good reason; None if the pass counts."""
    control = _Control(run, session, recorder)
    try:
        what = control.find_fault()
    except VacuousError as error:
        status = Status.REWARD_HACK if error.is_proven else Status.VERIFIER_ERROR
        return ExaminerResult(status=status, detail=str(error))
    return ExaminerResult(status=Status.VERIFIER_ERROR, detail=what) if what else None


class _Control:
    def __init__(self, run: TestRun, session: Session, recorder: Recorder) -> None:
        self._run = run
        self._session = session
        self._recorder = recorder
        self._failing: int | None = None
        self._vacuous: VacuousError | None = None
        self._reached: set[int] = set()

    def find_fault(self) -> str:
        if not self._recorder.is_whole:
            return "the exchange is too large to be repeated"
        tree = ast.parse(self._run.tests)
        if drop_messages(tree):
            self._run.recompile(tree)
            tree = ast.parse(self._run.tests)
        if always_holds(tree):
            return "an assert of the tests always holds"
        if what := self._run.reads.identity_fault(tree):
            return what
        is_sound = is_plain(tree, self._run.tests)
        if not is_sound and (what := self._asserts_fault(tree)):
            return what
        return "" if self._replies_matter() else "the tests pass with any reply, too"

    def _replies_matter(self) -> bool:
        """True if the tests are seen to fail with some reply altered."""
        return any(
            self._replayed({position: frame})
            for change in (alter, empty, shift_far)
            for position, frame in self._altered_replies(change)
        )

    def _altered_replies(self, change: Callable[[Any], Any]) -> Iterator[tuple[int, bytes]]:
        # The first one is the reply to the request to load the program.
        positions = self._recorder.received[1:]
        for position in positions[:: 1 + len(positions) // _MAX_TRIALS]:
            original = self._recorder.frames[position]
            altered = altered_reply(original, change)
            if altered is not None and altered != original:
                yield position, altered

    def _asserts_fault(self, tree: ast.Module) -> str:
        may_swallow = any(isinstance(node, _SWALLOWERS) for node in ast.walk(tree))
        num_asserts = rewrite_asserts(tree)
        code = self._run.compiled(tree)
        ended = self._replayed({}, code=code, names=self._names())
        if self._vacuous is not None:
            raise self._vacuous
        if ended or (num_asserts and not self._reached):
            return "the tests take another course when they expect other values"
        if may_swallow:
            end = time.monotonic() + _TRIALS_S
            for number, index in enumerate(sorted(self._reached)[:_MAX_TRIALS]):
                if number >= _LEAST_TRIALS and time.monotonic() > end:
                    break
                self._failing = index
                if not self._replayed({}, code=code, names=self._names()):
                    return "the tests swallow a failed assert"
        return ""

    def _replayed(self, altered: Mapping[int, bytes], **options: Any) -> bool:
        """True if the tests ended with an exception of their own."""
        replay = Replay(self._recorder.frames, altered)
        again = Session(replay)
        with self._session.state.as_at_first():
            error = self._run.against(again, **options)
        if isinstance(error, MemoryError):
            raise error
        if replay.is_over and self._reached and not options:
            # An assert went on to a call that it had not needed.
            return True
        return isinstance(error, Exception | SystemExit | CandidateError) and not (
            replay.deviated or again.fault
        )

    def _names(self) -> dict[str, Any]:
        """Names used by the rewritten asserts, and builtins that check for NaN first."""
        return {
            ALTERED: alter,
            FILLED: self._filled,
            FAR: shift_far,
            APART: disjoint,
            CHECKED: self._checked,
            DECIDE: self._decide,
            "min": self._ordering(min),
            "max": self._ordering(max),
            "sorted": self._ordering(sorted),
            "zip": self._zip,
        }

    def _decide(self, holds: object, index: int) -> None:
        """Record one altered assert; fail if it is the one to fail."""
        self._reached.add(index)
        if holds:
            raise self._is_vacuous("passes the tests with an expected value altered", proven=True)
        if index == self._failing:
            raise AssertionError("altered")

    def _filled(self, value: Any) -> Any:
        if value is None:
            raise self._is_vacuous("a comparison with a call that gives None", proven=False)
        return alter(value)

    def _checked(self, value: Any) -> Any:
        """The operand of an order comparison, which is vacuous with NaN."""
        if _holds_nan(value, _DEPTH):
            proven = self._session.sent_nan and "nan" not in self._run.tests.lower()
            raise self._is_vacuous("a comparison with NaN", proven=proven)
        return value

    def _ordering(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: function(*map(self._checked, args), **kwargs)

    def _zip(self, *columns: Any, **options: Any) -> Any:
        lengths = {len(column) for column in columns if isinstance(column, list | tuple | str)}
        if len(lengths) > 1 and 0 in lengths:
            raise self._is_vacuous("the comparison of nothing with something", proven=False)
        return builtins.zip(*columns, **options)  # noqa: B905 - as the tests ask

    def _is_vacuous(self, what: str, *, proven: bool) -> VacuousError:
        self._vacuous = VacuousError(what, is_proven=proven)
        return self._vacuous


def alter(value: Any) -> Any:
    """A different value of the same type."""
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value)
    return "~"


def empty(value: Any) -> Any:
    """The zero or the empty value of the type; None of another."""
    is_plain_kind = any(isinstance(value, kind) for kind, _ in _CHANGES)
    return type(value)() if is_plain_kind and type(value).__module__ == "builtins" else None


def shift_far(value: Any) -> Any:
    """A number that differs from ``value`` by more than any tolerance."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    if isinstance(value, list | tuple) and value:
        return type(value)(map(shift_far, value)) if type(value) in {list, tuple} else alter(value)
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


def _holds_nan(value: object, depth: int) -> bool:
    if type(value).__module__ == "numpy":
        value = value.tolist()  # type: ignore[attr-defined]
    if isinstance(value, float):
        return math.isnan(value)
    if depth == 0 or not isinstance(value, list | tuple | set):
        return False
    return any(_holds_nan(part, depth - 1) for part in value)
