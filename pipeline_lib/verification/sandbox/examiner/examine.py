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
from pipeline_lib.verification.sandbox.examiner.process_state import depends_on_local_state
from pipeline_lib.verification.sandbox.examiner.proxies import EntryPoint, Role
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import CandidateError
from pipeline_lib.verification.sandbox.examiner.replay import Recorder, Transport
from pipeline_lib.verification.sandbox.examiner.session import (
    DETAIL_LENGTH,
    ExaminerResult,
    Session,
)
from pipeline_lib.verification.sandbox.examiner.test_run import TestRun

_TEST_FAULTS = (NameError, ImportError, SyntaxError)
"""Exceptions that indicate broken tests, whatever the candidate returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result of the tests on one program."""

    result: ExaminerResult
    leaves_state: bool
    """True if the tests imported a module, whose state outlives them."""


def examine(channel: Transport, *, entry_point: str, tests: str) -> Examination:
    """Run ``tests`` against the candidate behind ``channel``, then the negative control.

    Args:
        channel: A connection without earlier requests.
        entry_point: The function under test, or a class by a name in CapWords.
        tests: See :class:`TestRun`.
    """
    recorder = Recorder(channel)
    session = Session(recorder)
    run = TestRun(tests, entry_point)
    try:
        result = _judge(run.against(session), session, run, recorder)
    except MemoryError:
        result = _result(Status.VERIFIER_ERROR, "the tests run out of memory")
    return Examination(result=result, leaves_state=session.may_leave_state)


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
    if isinstance(error, MemoryError):
        return _result(Status.MEMORY, "out of memory")
    original = error.original if isinstance(error, CandidateError) else error
    described = f"{type(original).__name__}: {original}"
    reason = _inconclusive_reason(error, session, tests)
    if reason:
        return _result(Status.VERIFIER_ERROR, f"{reason}: {described}")
    if error is session.last_raised:
        # The note is the name of the candidate's own class.
        return _result(Status.CRASHED, f"{error.__notes__[0]}: {original}")
    if isinstance(error, AssertionError):
        return _result(Status.WRONG, _failed_line(error) or described)
    if session.num_calls == 0:
        return _result(Status.VERIFIER_ERROR, f"the tests do not run: {described}")
    return _result(Status.WRONG, f"the tests cannot use the candidate's value: {described}")


def _inconclusive_reason(error: BaseException, session: Session, tests: str) -> str:
    """The reason why an exception is not evidence against the candidate; empty if it is."""
    if session.has_lost_mutation:
        return "an argument was changed that the tests read"
    if isinstance(error, _TEST_FAULTS) and error is not session.last_raised:
        return "the tests do not run"
    if depends_on_local_state(tests):
        return "the tests set state that is not carried across"
    if error is session.last_raised:
        absent = isinstance(error, CandidateError) and isinstance(error.original, AttributeError)
        name = error.__notes__[0]
        if absent and "attr(" in tests:
            return "the tests ask whether an attribute is there"
        own = not hasattr(builtins, name) and re.search(rf"\b{re.escape(name)}\b", tests)
        return "the tests know the exception's own class" if own else ""
    return _not_comparable(error, session, tests)


def _not_comparable(error: BaseException, session: Session, tests: str) -> str:
    if isinstance(error, AttributeError) and (
        session.lost_subclass or isinstance(error.obj, EntryPoint)
    ):
        return "the tests use what did not come across"
    asks_by_type = "isinstance(" in tests or "type(" in tests
    if isinstance(error, AssertionError):
        uses_object = session.met_objects and asks_by_type
    else:
        uses_object = session.met_objects or session.borrows_class or session.role is Role.TESTED
    if uses_object:
        return "the tests use an object that is not plain"
    return ""


def _failed_line(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == TESTS_FILE]
    return f"{type(error).__name__} in line {frames[-1].lineno} of the tests" if frames else ""


def _result(status: Status, detail: str) -> ExaminerResult:
    return ExaminerResult(status=status, detail=" ".join(detail.split())[:DETAIL_LENGTH])
