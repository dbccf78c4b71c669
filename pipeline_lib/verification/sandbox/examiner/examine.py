"""The tests' side: run trusted tests against a candidate that lives in another process.

Tests see the candidate's functions as proxies. Only plain values come back, so the comparison that
decides is made here, between exact builtin objects, by code that the candidate cannot reach.
"""

import ast
import builtins
import re
import sys
import traceback
from types import CodeType, FunctionType
from typing import Any

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.argument_mutations import TESTS_FILE, MutationReads
from pipeline_lib.verification.sandbox.examiner.assert_rewriting import NoControlError, alter_all
from pipeline_lib.verification.sandbox.examiner.negative_control import Control
from pipeline_lib.verification.sandbox.examiner.process_state import relies_on_own_state
from pipeline_lib.verification.sandbox.examiner.proxies import Borrowed, EntryPoint, Opaque, Role
from pipeline_lib.verification.sandbox.examiner.remote_exceptions import (
    CrossedError,
    names_for_handlers,
    see_through,
)
from pipeline_lib.verification.sandbox.examiner.session import (
    DETAIL_LENGTH,
    Finding,
    Session,
)

_CLASS_NAME = re.compile(r"[A-Z][a-z0-9]+([A-Z][A-Za-z0-9]*)*|[A-Z]{2,}[a-z][A-Za-z0-9]*")
_CATCHES = re.compile(r"\b(except|with)\b")
_OUR_FAILURES = (NameError, ImportError, SyntaxError, NoControlError)
"""What tests raise by themselves, whatever the candidate gives."""


def examine(session: Session, *, entry_point: str, tests: str, alter: bool) -> Finding:
    """Run ``tests`` against the candidate behind ``session``.

    Args:
        session: A candidate that has not been asked anything yet.
        entry_point: The function under test, or a class by a name in CapWords.
        tests: Top-level asserts that call it by name, or a definition of ``check(candidate)``.
        alter: Have every assert ask for another value: the negative control, which must not pass.
    """
    control = None
    if alter:
        control = Control(lambda: session.sent_nan and "nan" not in tests.lower())
    raised: BaseException | None = None
    try:
        is_class = _CLASS_NAME.fullmatch(entry_point) is not None
        session.reads = MutationReads(tests, entry_point)
        session.state.watch(tests)
        if session.request("load", entry_point, is_class) is True:
            session.role = Role.TESTED
        _run_tests(session, entry_point=entry_point, tests=tests, control=control)
    except BaseException as error:  # noqa: BLE001 - whatever tests raise is a finding
        raised = error
    if session.fault is not None:
        return session.fault.finding
    if control is not None and session.num_calls:
        return _controlled(control, raised)
    return _judged(raised, session, tests)


def _run_tests(session: Session, *, entry_point: str, tests: str, control: Control | None) -> None:
    candidate = EntryPoint(session, entry_point)
    names_of_tests = _Names(session)
    if control is not None:
        names_of_tests.update(control.names())
    names = {"__name__": "tests", "__builtins__": names_of_tests, entry_point: candidate}
    exec(_compiled(tests, control), names)  # noqa: S102 - trusted, and jailed anyhow
    check: object = names.get("check")
    if isinstance(check, FunctionType):
        check(candidate)


def _compiled(tests: str, control: Control | None) -> CodeType:
    catches = _CATCHES.search(tests) is not None
    if control is None and not catches:
        return compile(tests, TESTS_FILE, "exec")
    tree = ast.parse(tests) if control is None else alter_all(tests)
    return compile(see_through(tree) if catches else tree, TESTS_FILE, "exec")


class _Names(dict[str, Any]):
    """The builtins of tests, and behind them what tests use without defining it.

    Such a name is a module of the standard library, ours, or a class that tests build arguments with.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(vars(builtins))
        self.update(names_for_handlers())
        self["__import__"] = self._import
        self._session = session

    def _import(self, *arguments: Any, **options: Any) -> Any:
        self._session.may_leave_traces = True
        return __import__(*arguments, **options)

    def __missing__(self, name: str) -> Any:
        value = self._import(name) if name in sys.stdlib_module_names else self._borrowed(name)
        self[name] = value
        return value

    def _borrowed(self, name: str) -> Borrowed:
        made = None
        if _CLASS_NAME.fullmatch(name):
            made = self._session.request("name", name, role=Role.BORROWED)
        if not isinstance(made, Opaque):
            detail = f"the tests use {name!r}, which is undefined"
            raise self._session.refuse(Status.VERIFIER_ERROR, detail)
        self._session.lends = True
        return Borrowed(self._session, made, name)


def _judged(error: BaseException | None, session: Session, tests: str) -> Finding:
    if error is None:
        if session.num_calls:
            return _finding(Status.CORRECT, "")
        return _finding(Status.VERIFIER_ERROR, "the tests never call the candidate")
    return _failed(error, session, tests)


def _failed(error: BaseException, session: Session, tests: str) -> Finding:
    if isinstance(error, MemoryError):
        return _finding(Status.MEMORY, "out of memory")
    genuine = error.genuine if isinstance(error, CrossedError) else error
    described = f"{type(genuine).__name__}: {genuine}"
    reason = _not_to_blame(error, session, tests)
    if reason:
        return _finding(Status.VERIFIER_ERROR, f"{reason}: {described}")
    if error is session.last_raised:
        # The note is the name of the candidate's own class.
        return _finding(Status.CRASHED, f"{error.__notes__[0]}: {genuine}")
    if isinstance(error, AssertionError):
        return _finding(Status.WRONG, _failed_line(error) or described)
    if session.num_calls == 0:
        return _finding(Status.VERIFIER_ERROR, f"the tests do not run: {described}")
    return _finding(Status.WRONG, f"the tests cannot use the candidate's value: {described}")


def _not_to_blame(error: BaseException, session: Session, tests: str) -> str:
    """Why what the tests raised says nothing about the candidate; empty if it does."""
    if session.lost_change:
        return "an argument was changed that the tests read"
    if isinstance(error, _OUR_FAILURES) and error is not session.last_raised:
        return "the tests do not run"
    if relies_on_own_state(tests):
        return "the tests set state that is not carried across"
    if error is session.last_raised:
        absent = isinstance(error, CrossedError) and isinstance(error.genuine, AttributeError)
        name = error.__notes__[0]
        if absent and "attr(" in tests:
            return "the tests ask whether an attribute is there"
        own = not hasattr(builtins, name) and re.search(rf"\b{re.escape(name)}\b", tests)
        return "the tests know the exception's own class" if own else ""
    return _not_comparable(error, session, tests)


def _not_comparable(error: BaseException, session: Session, tests: str) -> str:
    if isinstance(error, AttributeError) and (
        session.was_stripped or isinstance(error.obj, EntryPoint)
    ):
        return "the tests use what did not come across"
    asks_by_type = "isinstance(" in tests or "type(" in tests
    if isinstance(error, AssertionError):
        uses_object = session.met_objects and asks_by_type
    else:
        uses_object = session.met_objects or session.lends or session.role is Role.TESTED
    if uses_object:
        return "the tests use an object that is not plain"
    return ""


def _controlled(control: Control, error: BaseException | None) -> Finding:
    """What the negative control says; only a vacuous assert lets it pass."""
    if error is None:
        control.end()
    if control.vacuous is not None:
        status = Status.CORRECT if control.vacuous.is_proven else Status.VERIFIER_ERROR
        return _finding(status, str(control.vacuous))
    if control.num_decided == 0:
        return _finding(Status.VERIFIER_ERROR, f"no assert was reached ({error})")
    return _finding(Status.WRONG, "the altered asserts fail")


def _failed_line(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == TESTS_FILE]
    return f"{type(error).__name__} in line {frames[-1].lineno} of the tests" if frames else ""


def _finding(status: Status, detail: str) -> Finding:
    return Finding(status=status, detail=" ".join(detail.split())[:DETAIL_LENGTH])
