"""Run of trusted tests against a candidate in another process.

Tests call proxies of the candidate's functions. Only plain values come back, so the deciding
comparison is between exact builtin objects, in a process that the candidate cannot reach.
"""

import builtins
import re
import traceback

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner.negative_control import NegativeControl
from pipeline_lib.verify.sandbox.examiner.proxies import make_proxy
from pipeline_lib.verify.sandbox.examiner.rewriting import to_original
from pipeline_lib.verify.sandbox.examiner.session import ExaminerResult, Role, Session
from pipeline_lib.verify.sandbox.examiner.shared_state import TESTS_FILE
from pipeline_lib.verify.sandbox.examiner.test_run import TestRun
from pipeline_lib.verify.sandbox.protocol import Channel

_DETAIL_LENGTH = 300
_TEST_FAULTS = (NameError, ImportError, SyntaxError, MemoryError, OSError)
"""Exceptions that indicate broken tests, or limits of theirs, whatever the candidate returns."""
_OF_VALUES = (
    *(AssertionError, TypeError, ValueError, LookupError, ArithmeticError),
    *(AttributeError, StopIteration),
)
"""Exceptions by which tests or Python refuse a value that another program would not return."""


def examine(
    channel: Channel, *, entry_point: str, tests: str, as_process: bool = False
) -> ExaminerResult:
    """Run the :class:`TestRun` against the candidate behind ``channel``, then the negative control.

    ``as_process``: only run the program, which ends without an exception if it is correct.
    """
    if as_process:
        session = Session(channel, make_proxy, tests="", entry_point="")
        result = _run_as_process(session)
    else:
        run = TestRun(tests, entry_point)
        session, error = run.against(channel)
        try:
            result = _judge(error, session, run)
        except MemoryError:
            result = ExaminerResult(Status.VERIFIER_ERROR, "the tests run out of memory")
    detail = " ".join(result.detail.split())[:_DETAIL_LENGTH]
    return ExaminerResult(result.status, detail, leaves_state=session.state.may_remain)


def _run_as_process(session: Session) -> ExaminerResult:
    error: BaseException | None = None
    try:
        session.request("run")
    except BaseException as raised:  # noqa: BLE001 - the program's
        error = raised
    if session.fault is not None:
        return session.fault
    if error is None or (isinstance(error, SystemExit) and not error.code):
        return ExaminerResult(Status.CORRECT, "")
    status = Status.MEMORY if isinstance(error, MemoryError) else Status.CRASHED
    return ExaminerResult(status, f"{type(error).__name__}: {error}")


def _judge(error: BaseException | None, session: Session, run: TestRun) -> ExaminerResult:
    if session.fault is not None:
        return session.fault
    if error is not None:
        return _judge_failure(error, session)
    if session.num_calls == 0:
        return ExaminerResult(Status.VERIFIER_ERROR, "the tests never call the candidate")
    if session.has_lost_mutation:
        return ExaminerResult(Status.VERIFIER_ERROR, "an argument was changed that the tests read")
    refusal = NegativeControl(run, session).refusal()
    return refusal or ExaminerResult(Status.CORRECT, "")


def _judge_failure(error: BaseException, session: Session) -> ExaminerResult:
    is_own = error is session.last_raised
    original = to_original(error)
    described = f"{type(original).__name__}: {original}"
    find_reason = _own_error_reason if is_own else _tests_error_reason
    if reason := _unseen_reason(session) or find_reason(error, session):
        return ExaminerResult(Status.VERIFIER_ERROR, f"{reason}: {described}")
    if is_own and isinstance(error, MemoryError):
        return ExaminerResult(Status.MEMORY, "out of memory")
    if is_own:
        return ExaminerResult(Status.CRASHED, f"{session.last_name}: {original}")
    if isinstance(error, AssertionError):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == TESTS_FILE]
        line = f"{type(error).__name__} in line {frames[-1].lineno} of the tests" if frames else ""
        return ExaminerResult(Status.WRONG, line or described)
    return ExaminerResult(Status.WRONG, f"the tests cannot use the candidate's value: {described}")


def _unseen_reason(session: Session) -> str:
    """The reason why the program may not have seen what the tests did; empty if it has."""
    if session.has_lost_mutation:
        return "an argument was changed that the tests read"
    if session.has_aliases:
        return "a part of an argument was given twice"
    if session.state.has_lost():
        return "the tests set state that is not carried across"
    return ""


def _own_error_reason(error: BaseException, session: Session) -> str:
    """The reason why an exception of the program is not evidence against it."""
    if isinstance(to_original(error), AttributeError) and "attr(" in session.tests:
        return "the tests ask whether an attribute is there"
    name = session.last_name
    own = not hasattr(builtins, name) and re.search(rf"\b{re.escape(name)}\b", session.tests)
    return "the tests know the exception's own class" if own else ""


def _tests_error_reason(error: BaseException, session: Session) -> str:
    """The reason why an exception that the program did not raise is not evidence against it."""
    tests = session.tests
    if isinstance(error, _TEST_FAULTS) or session.num_calls == 0:
        return "the tests do not run"
    asks_type = rf"\btype\(\s*({re.escape(session.entry_point)}|candidate)\s*\)"
    if session.was_questioned or re.search(asks_type, tests):
        return "the tests ask what the function itself is"
    if isinstance(error, AttributeError) and session.lost_subclass:
        return "the tests use what did not come across"
    if isinstance(error, AssertionError):
        is_unclear = session.met_objects and ("isinstance(" in tests or "type(" in tests)
    else:
        is_unclear = bool(session.proxies) or session.role is Role.TESTED
    if is_unclear:
        return "the tests use an object that is not plain"
    return "" if isinstance(error, _OF_VALUES) or _is_raised(error, tests) else "the tests fail"


def _is_raised(error: BaseException, tests: str) -> bool:
    """True if a statement of the tests raised it, as a failed check does."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].filename != TESTS_FILE:
        return False
    line = tests.splitlines()[(frames[-1].lineno or 1) - 1]
    return "raise" in line or isinstance(error, SystemExit)
