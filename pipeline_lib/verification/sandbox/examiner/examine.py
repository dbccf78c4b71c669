"""Run of trusted tests against a candidate in another process.

Tests call proxies of the candidate's functions. Only plain values come back, so the deciding
comparison is between exact builtin objects, in a process that the candidate cannot reach.
"""

import ast
import builtins
import re
import sys
import traceback
from types import CodeType, FunctionType
from typing import Any

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.argument_mutations import (
    TESTS_FILE,
    ArgumentMutations,
)
from pipeline_lib.verification.sandbox.examiner.assert_rewriting import (
    NoControlError,
    rewrite_asserts,
)
from pipeline_lib.verification.sandbox.examiner.negative_control import NegativeControl
from pipeline_lib.verification.sandbox.examiner.process_state import depends_on_local_state
from pipeline_lib.verification.sandbox.examiner.proxies import Borrowed, EntryPoint, Opaque, Role
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import (
    CandidateError,
    handler_names,
    unwrap_in_handlers,
)
from pipeline_lib.verification.sandbox.examiner.session import (
    DETAIL_LENGTH,
    ExaminerResult,
    Session,
)

_CLASS_NAME = re.compile(r"[A-Z][a-z0-9]+([A-Z][A-Za-z0-9]*)*|[A-Z]{2,}[a-z][A-Za-z0-9]*")
_CATCHES = re.compile(r"\b(except|with)\b")
_TEST_FAULTS = (NameError, ImportError, SyntaxError, NoControlError)
"""Exceptions that indicate broken tests, whatever the candidate returns."""


def examine(session: Session, *, entry_point: str, tests: str, alter: bool) -> ExaminerResult:
    """Run ``tests`` against the candidate behind ``session``.

    Args:
        session: A session without earlier requests.
        entry_point: The function under test, or a class by a name in CapWords.
        tests: Top-level asserts that call it by name, or a definition of ``check(candidate)``.
        alter: Alter every assert to expect another value: the negative control, which must fail.
    """
    control = None
    if alter:
        control = NegativeControl(lambda: session.sent_nan and "nan" not in tests.lower())
    raised: BaseException | None = None
    try:
        is_class = _CLASS_NAME.fullmatch(entry_point) is not None
        session.reads = ArgumentMutations(tests, entry_point)
        session.state.watch(tests)
        if session.request("load", entry_point, is_class) is True:
            session.role = Role.TESTED
        _run_tests(session, entry_point=entry_point, tests=tests, control=control)
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        raised = error
    if session.fault is not None:
        return session.fault.result
    if control is not None and session.num_calls:
        return _judge_control(control, raised)
    return _judge(raised, session, tests)


def _run_tests(
    session: Session, *, entry_point: str, tests: str, control: NegativeControl | None
) -> None:
    candidate = EntryPoint(session, entry_point)
    names_of_tests = _Names(session)
    if control is not None:
        names_of_tests.update(control.names())
    names = {"__name__": "tests", "__builtins__": names_of_tests, entry_point: candidate}
    exec(_compile(tests, control), names)  # noqa: S102 - trusted, and jailed anyhow
    check: object = names.get("check")
    if isinstance(check, FunctionType):
        check(candidate)


def _compile(tests: str, control: NegativeControl | None) -> CodeType:
    catches = _CATCHES.search(tests) is not None
    if control is None and not catches:
        return compile(tests, TESTS_FILE, "exec")
    tree = ast.parse(tests) if control is None else rewrite_asserts(tests)
    return compile(unwrap_in_handlers(tree) if catches else tree, TESTS_FILE, "exec")


class _Names(dict[str, Any]):
    """The builtins of the tests, with fallbacks for names that the tests do not define.

    Such a name is a module of the standard library, or a class with which tests build arguments.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(vars(builtins))
        self.update(handler_names())
        self["__import__"] = self._import
        self._session = session

    def _import(self, *arguments: Any, **options: Any) -> Any:
        self._session.may_leave_state = True
        return __import__(*arguments, **options)

    def __missing__(self, name: str) -> Any:
        value = self._import(name) if name in sys.stdlib_module_names else self._borrow(name)
        self[name] = value
        return value

    def _borrow(self, name: str) -> Borrowed:
        made = None
        if _CLASS_NAME.fullmatch(name):
            made = self._session.request("name", name, role=Role.BORROWED)
        if not isinstance(made, Opaque):
            detail = f"the tests use {name!r}, which is undefined"
            raise self._session.refuse(Status.VERIFIER_ERROR, detail)
        self._session.borrows_class = True
        return Borrowed(self._session, made, name)


def _judge(error: BaseException | None, session: Session, tests: str) -> ExaminerResult:
    if error is None:
        if session.num_calls:
            return _result(Status.CORRECT, "")
        return _result(Status.VERIFIER_ERROR, "the tests never call the candidate")
    return _judge_failure(error, session, tests)


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


def _judge_control(control: NegativeControl, error: BaseException | None) -> ExaminerResult:
    """The result of the negative control; CORRECT if an altered assert held."""
    if error is None:
        control.end()
    if control.vacuous is not None:
        status = Status.CORRECT if control.vacuous.is_proven else Status.VERIFIER_ERROR
        return _result(status, str(control.vacuous))
    if control.num_decided == 0:
        return _result(Status.VERIFIER_ERROR, f"no assert was reached ({error})")
    return _result(Status.WRONG, "the altered asserts fail")


def _failed_line(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == TESTS_FILE]
    return f"{type(error).__name__} in line {frames[-1].lineno} of the tests" if frames else ""


def _result(status: Status, detail: str) -> ExaminerResult:
    return ExaminerResult(status=status, detail=" ".join(detail.split())[:DETAIL_LENGTH])
