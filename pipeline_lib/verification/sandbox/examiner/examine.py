"""Run of trusted tests against a candidate in another process.

Tests call proxies of the candidate's functions. Only plain values come back, so the deciding
comparison is between exact builtin objects, in a process that the candidate cannot reach.
"""

import builtins
import re
import traceback
from dataclasses import dataclass

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.argument_mutations import TESTS_FILE
from pipeline_lib.verification.sandbox.examiner.negative_control import refuse_pass
from pipeline_lib.verification.sandbox.examiner.proxies import Role
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import CandidateError
from pipeline_lib.verification.sandbox.examiner.replay import Recorder, Transport
from pipeline_lib.verification.sandbox.examiner.session import (
    DETAIL_LENGTH,
    ExaminerResult,
    Session,
)
from pipeline_lib.verification.sandbox.examiner.test_run import TestRun

_TEST_FAULTS = (NameError, ImportError, SyntaxError, MemoryError, OSError)
"""Exceptions that indicate broken tests, or limits of theirs, whatever the candidate returns."""
_OF_VALUES = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, StopIteration)
"""Exceptions by which Python refuses a value that another program would not have returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result of the tests on one program."""

    result: ExaminerResult
    leaves_state: bool
    """True if the tests imported a module, whose state outlives them."""


def examine(
    channel: Transport, *, entry_point: str, tests: str, as_process: bool = False
) -> Examination:
    """Run ``tests`` against the candidate behind ``channel``, then the negative control.

    Args:
        channel: A connection without earlier requests.
        entry_point: The function under test, or a class by a name in CapWords.
        tests: See :class:`TestRun`.
        as_process: Only run the program, which ends without an exception if it is correct.
    """
    recorder = Recorder(channel)
    session = Session(recorder)
    run = TestRun(tests, entry_point)
    if as_process:
        return Examination(result=_run_as_process(session), leaves_state=False)
    try:
        result = _judge(run.against(session), session, run, recorder)
    except MemoryError:
        result = _result(Status.VERIFIER_ERROR, "the tests run out of memory")
    return Examination(result=result, leaves_state=session.may_leave_state)


def _run_as_process(session: Session) -> ExaminerResult:
    error: BaseException | None = None
    try:
        session.request("run")
    except BaseException as raised:  # noqa: BLE001 - the program's
        error = raised
    if session.fault is not None:
        return session.fault.result
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return _result(Status.CORRECT, "")
    status = Status.MEMORY if isinstance(error, MemoryError) else Status.CRASHED
    return _result(status, f"{type(error).__name__}: {error}")


def _judge(
    error: BaseException | None, session: Session, run: TestRun, recorder: Recorder
) -> ExaminerResult:
    if session.fault is not None:
        return session.fault.result
    if error is not None:
        return _judge_failure(error, session, run.tests)
    if session.num_calls == 0:
        return _result(Status.VERIFIER_ERROR, "the tests never call the candidate")
    if session.has_lost_mutation:
        return _result(Status.VERIFIER_ERROR, "an argument was changed that the tests read")
    return refuse_pass(run, session, recorder) or _result(Status.CORRECT, "")


def _judge_failure(error: BaseException, session: Session, tests: str) -> ExaminerResult:
    is_own = error is session.last_raised
    original = error.original if isinstance(error, CandidateError) else error
    described = f"{type(original).__name__}: {original}"
    reason = (
        _unseen_reason(session)
        or (_own_error_reason(error, tests) if is_own else "")
        or ("" if is_own else _tests_error_reason(error, session, tests))
    )
    if reason:
        return _result(Status.VERIFIER_ERROR, f"{reason}: {described}")
    if is_own and isinstance(error, MemoryError):
        return _result(Status.MEMORY, "out of memory")
    if is_own:
        # The note is the name of the candidate's own class.
        return _result(Status.CRASHED, f"{error.__notes__[0]}: {original}")
    if isinstance(error, AssertionError):
        return _result(Status.WRONG, _failed_line(error) or described)
    return _result(Status.WRONG, f"the tests cannot use the candidate's value: {described}")


def _unseen_reason(session: Session) -> str:
    """The reason why the program may not have seen what the tests did; empty if it has."""
    if session.has_lost_mutation:
        return "an argument was changed that the tests read"
    if session.has_aliases:
        return "a part of an argument was given twice"
    if session.state.look().is_lost:
        return "the tests set state that is not carried across"
    return ""


def _own_error_reason(error: BaseException, tests: str) -> str:
    """The reason why an exception of the program is not evidence against it."""
    absent = isinstance(error, CandidateError) and isinstance(error.original, AttributeError)
    name = error.__notes__[0]
    if absent and "attr(" in tests:
        return "the tests ask whether an attribute is there"
    own = not hasattr(builtins, name) and re.search(rf"\b{re.escape(name)}\b", tests)
    return "the tests know the exception's own class" if own else ""


def _tests_error_reason(error: BaseException, session: Session, tests: str) -> str:
    """The reason why an exception that the program did not raise is not evidence against it."""
    if isinstance(error, _TEST_FAULTS) or session.num_calls == 0:
        return "the tests do not run"
    if session.was_questioned or re.search(
        rf"\btype\(\s*({session.entry_point}|candidate)\s*\)", tests
    ):
        return "the tests ask what the function itself is"
    if isinstance(error, AttributeError) and session.lost_subclass:
        return "the tests use what did not come across"
    if isinstance(error, AssertionError):
        asks_by_type = "isinstance(" in tests or "type(" in tests
        return (
            "the tests use an object that is not plain"
            if session.met_objects and asks_by_type
            else ""
        )
    if session.met_proxies or session.borrows_class or session.role is Role.TESTED:
        return "the tests use an object that is not plain"
    return "" if isinstance(error, _OF_VALUES) or _is_raised(error, tests) else "the tests fail"


def _is_raised(error: BaseException, tests: str) -> bool:
    """True if a statement of the tests raised it, as a failed check does."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename != TESTS_FILE:
        return False
    line = tests.splitlines()[(frames[-1].lineno or 1) - 1]
    return "raise" in line or isinstance(error, SystemExit)


def _failed_line(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == TESTS_FILE]
    return f"{type(error).__name__} in line {frames[-1].lineno} of the tests" if frames else ""


def _result(status: Status, detail: str) -> ExaminerResult:
    return ExaminerResult(status=status, detail=" ".join(detail.split())[:DETAIL_LENGTH])
