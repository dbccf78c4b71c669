"""One run of the tests of a program, against the program itself or against the record of a run.

The run has four parts: the statements, ``check(candidate)``, the cases of unittest, and, as in
pytest, the functions and classes named ``test*`` that the tests do not call themselves.
"""

import ast
import builtins
import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner import pytest_stand_in
from pipeline_lib.verify.sandbox.examiner.proxies import CLASS_NAME, EntryPoint, Opaque, make_proxy
from pipeline_lib.verify.sandbox.examiner.rewriting import HANDLER_NAMES, unwrap_in_handlers
from pipeline_lib.verify.sandbox.examiner.session import Role, Session
from pipeline_lib.verify.sandbox.examiner.shared_state import TESTS_FILE
from pipeline_lib.verify.sandbox.protocol import Channel

_CATCHES = re.compile(r"\b(except|with)\b")
_MODULE = "tests"
_CLASS = re.compile(r"^class\s", re.MULTILINE)
_DATA_MODULES = frozenset({"typing", "dataclasses", "enum", "collections", "__future__"})


class TestRun:
    """The tests of one function, or of a class by a name in CapWords.

    They are top-level asserts that call it by name, ``check(candidate)``, or test cases.
    """

    __test__ = False  # not pytest's

    def __init__(self, tests: str, entry_point: str) -> None:
        self.tests = tests
        self.entry_point = entry_point

    def against(
        self,
        channel: Channel,
        code: CodeType | None = None,
        names: Mapping[str, object] = {},
    ) -> tuple[Session, BaseException | None]:
        """Run them, or ``code`` with its ``names`` in their place, over a channel without requests.

        Returns the session, and the exception that ended them, or None.
        """
        session = Session(channel, make_proxy, tests=self.tests, entry_point=self.entry_point)
        try:
            self._run(session, code, names)
        except BaseException as error:  # noqa: BLE001 - any exception is a result
            return session, error
        return session, None

    def _run(self, session: Session, code: CodeType | None, names: Mapping[str, object]) -> None:
        is_class = CLASS_NAME.fullmatch(self.entry_point) is not None
        shared, prelude = self.shared
        is_object = session.request("load", self.entry_point, is_class, shared, prelude)
        if is_class and is_object is True:
            session.role = Role.TESTED
        candidate = EntryPoint(session, self.entry_point)
        scope = session.scope = {
            "__name__": _MODULE,
            "__builtins__": _Names(session, candidate, **names),
            self.entry_point: candidate,
        }
        try:
            exec(code or self.code, scope)  # noqa: S102 - trusted, and jailed anyhow
        except SystemExit as error:
            if error.code or error is session.last_raised:
                raise
        check: object = scope.get("check")
        if type(check) is FunctionType:
            check(*[candidate][: check.__code__.co_argcount])
        self._run_uncalled(scope)

    @functools.cached_property
    def shared(self) -> tuple[list[str], str]:
        """Names of the classes of the tests, and source of those that a program may use.

        Of these the tests make arguments, or the prompt gives them: a test case or whatever else
        knows the function under test is not among them.
        """
        if not _CLASS.search(self.tests):
            return [], ""
        body = ast.parse(self.tests).body
        named = [node for node in body if isinstance(node, ast.ClassDef)]
        known = re.compile(rf"\b(assert|{re.escape(self.entry_point)})\b")
        given = [
            source
            for node in body
            if (isinstance(node, ast.ClassDef) and all(map(_is_of_data, node.body)))
            or (isinstance(node, ast.ImportFrom) and node.module in _DATA_MODULES)
            if not known.search(source := ast.unparse(node))
        ]
        return [node.name for node in named], "\n".join(given)

    @functools.cached_property
    def code(self) -> CodeType:
        """The compiled tests."""
        return self.compiled(None)

    def compiled(self, tree: ast.Module | None) -> CodeType:
        """The tests, or their rewritten ``tree``, with handlers that see original exceptions."""
        if _CATCHES.search(self.tests):
            tree = unwrap_in_handlers(tree or ast.parse(self.tests))
        return compile(tree or self.tests, TESTS_FILE, "exec")

    def _run_uncalled(self, scope: dict[str, Any]) -> None:
        for name, value in list(scope.items()):
            if getattr(value, "__module__", "") != _MODULE:
                continue
            if isinstance(value, type):
                unittest = sys.modules.get("unittest")
                if unittest is not None and issubclass(value, unittest.TestCase):
                    _run_test_case(value)
                elif name.startswith("Test"):
                    _run_methods(value, scope)
            elif (
                type(value) is FunctionType
                and name.lower().startswith("test")
                and len(re.findall(rf"\b{name}\b", self.tests)) == 1
            ):
                pytest_stand_in.run(value, scope)


def _is_of_data(node: ast.stmt) -> bool:
    """True for a part of a class that only holds data."""
    return isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.Pass) or (
        isinstance(node, ast.FunctionDef) and node.name.startswith("__")
    )


def _run_test_case(case: Any) -> None:
    unittest = sys.modules["unittest"]
    case.setUpClass()
    for name in unittest.defaultTestLoader.getTestCaseNames(case):
        with contextlib.suppress(unittest.SkipTest):
            case(name).debug()
    case.tearDownClass()


def _run_methods(kind: type, scope: dict[str, Any]) -> None:
    for name in [name for name in vars(kind) if name.startswith("test")]:
        made = kind()
        for prepare in ("setup_class", "setup_method"):
            if hasattr(made, prepare):
                function = getattr(made, prepare)
                function(*[None] * len(inspect.signature(function).parameters))
        pytest_stand_in.run(getattr(made, name), scope)


class _Names(dict[str, Any]):
    """The builtins of the tests, with fallbacks for names that the tests do not define.

    Such a name is a module of the standard library, or a class with which tests build arguments.
    """

    def __init__(self, session: Session, candidate: EntryPoint, **names: object) -> None:
        super().__init__(vars(builtins), **HANDLER_NAMES, **names, __import__=self._import)
        self._candidate = candidate
        self._session = session

    def _import(self, name: str, *arguments: Any, **options: Any) -> Any:
        self._session.state.note_modules()
        if name.partition(".")[0] == "pytest":
            return pytest_stand_in
        try:
            module = __import__(name, *arguments, **options)
        except ModuleNotFoundError:
            module = self._program(name, arguments[2] if len(arguments) > 2 else None)
        self._session.state.note_modules()
        if name == "unittest":
            # It would look for cases in the module of the interpreter.
            module.main = lambda *_, **__: None  # type: ignore[attr-defined]
        return module

    def _program(self, name: str, wanted: Sequence[str] | None) -> ModuleType:
        """A module that stands for the program, from which tests import the function under test."""
        entry = self._candidate.__name__
        if (
            entry not in (wanted or ())
            and wanted != ("*",)
            and f"{name}.{entry}" not in self._session.tests
        ):
            raise ModuleNotFoundError(f"No module named {name!r}")
        module = ModuleType(name)
        for other in set(wanted or ()) - {"*", entry}:
            setattr(module, other, self._named(other, Role.RESULT))
        setattr(module, entry, self._candidate)
        return module

    def __missing__(self, name: str) -> Any:
        is_module = name in sys.stdlib_module_names
        self[name] = self._import(name) if is_module else self._named(name, Role.CLASS)
        return self[name]

    def _named(self, name: str, role: Role) -> Opaque:
        """A function or class of the program."""
        is_asked = role is Role.RESULT or CLASS_NAME.fullmatch(name)
        made = self._session.request("name", name, role=role) if is_asked else None
        if not isinstance(made, Opaque):
            detail = f"the tests use {name!r}, which is undefined"
            raise self._session.refuse(Status.VERIFIER_ERROR, detail)
        return made
