"""Stand-in for the parts of pytest that tests of programs use; the jail has no pytest."""

import contextlib
import functools
import importlib
import inspect
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from types import SimpleNamespace
from typing import Any, NoReturn

from pipeline_lib.verification.sandbox.examiner.remote_exceptions import CandidateError

_CASES, _FIXTURE = "__cases__", "__fixture__"


class approx:  # noqa: N801 - pytest's name
    """Equal to numbers within a tolerance, also inside a list, tuple or dict."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        expected: Any,
        rel: float | None = None,
        abs: float | None = None,  # noqa: A002 - pytest's name
        nan_ok: bool = False,  # noqa: FBT001, FBT002 - pytest's signature
    ) -> None:
        self.expected = expected
        self._options: tuple[Any, ...] = (rel, abs, nan_ok)

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]
        return self._agree(self.expected, other)

    def _agree(self, expected: Any, other: Any) -> bool:
        if hasattr(expected, "tolist"):
            expected, other = expected.tolist(), getattr(other, "tolist", lambda: other)()
        if isinstance(expected, dict):
            return isinstance(other, dict) and (
                expected.keys() == other.keys()
                and all(self._agree(value, other[key]) for key, value in expected.items())
            )
        if isinstance(expected, list | tuple):
            return (
                isinstance(other, list | tuple)
                and len(expected) == len(other)
                and all(map(self._agree, expected, other))
            )
        if isinstance(expected, bool) or not isinstance(expected, Number):
            return bool(expected == other)
        return isinstance(other, Number) and self._is_near(expected, other)

    def _is_near(self, expected: Any, other: Any) -> bool:
        rel, least, nan_ok = self._options
        if expected != expected:  # noqa: PLR0124 - NaN
            return bool(nan_ok and other != other)  # noqa: PLR0124
        if expected == other or math.isinf(expected.real):
            return bool(expected == other)
        tolerance = 1e-12 if least is None else least
        if rel is not None or least is None:
            tolerance = max(
                tolerance, (1e-6 if rel is None else rel) * type(tolerance)(abs(expected))
            )
        return bool(abs(other - expected) <= tolerance)


@contextlib.contextmanager
def _raises(kinds: Any, match: str | None) -> Iterator[Any]:
    caught = SimpleNamespace(value=None, type=None)
    try:
        yield caught
    except BaseException as error:
        original = error.original if isinstance(error, CandidateError) else error
        if not isinstance(original, kinds):
            raise
        caught.value, caught.type = original, type(original)
    if caught.value is None:
        raise AssertionError(f"DID NOT RAISE {kinds}")
    if match is not None and not re.search(match, str(caught.value)):
        raise AssertionError(f"{match!r} does not match {str(caught.value)!r}")


def raises(kinds: Any, *call: Any, match: str | None = None, **options: Any) -> Any:
    """A context in which an exception must be raised, or a call that must raise it."""
    if not call:
        return _raises(kinds, match)
    with _raises(kinds, match) as caught:
        call[0](*call[1:], **options)
    return caught


def fail(reason: str = "", **_: Any) -> NoReturn:
    """Fail the tests."""
    raise AssertionError(reason)


def fixture(*function: Any, **_: Any) -> Any:
    """Mark a function whose result tests take by its name."""
    if not function:
        return fixture
    setattr(function[0], _FIXTURE, True)
    return function[0]


class param(tuple[Any, ...]):  # noqa: N801 - pytest's name
    """One case of ``parametrize``."""

    __slots__ = ()

    def __new__(cls, *values: Any, **_: Any) -> "param":
        """Keep the values alone."""
        return super().__new__(cls, values)


class _Marks:
    def __getattr__(self, _: str) -> Any:
        def mark(*arguments: Any, **__: Any) -> Any:
            is_bare = len(arguments) == 1 and callable(arguments[0])
            return arguments[0] if is_bare else lambda function: function

        return mark

    @staticmethod
    def parametrize(names: str | Sequence[str], cases: Sequence[Any], **_: Any) -> Any:
        fields = re.findall(r"\w+", names) if isinstance(names, str) else list(names)

        def mark(function: Any) -> Any:
            rows = [dict(zip(fields, _values(case, fields), strict=True)) for case in cases]
            earlier = getattr(function, _CASES, [{}])
            setattr(function, _CASES, [{**one, **other} for one in rows for other in earlier])
            return function

        return mark


def _values(case: Any, fields: list[str]) -> Any:
    return case if len(fields) > 1 or isinstance(case, param) else [case]


mark = _Marks()


def calls(function: Any, scope: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """The calls of one test: a call for each case, with fixtures by the names of parameters.

    Raises:
        NameError: a parameter is neither.
    """
    for case in getattr(function, _CASES, [{}]):
        given = dict(case)
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in given and parameter.default is parameter.empty:
                given[name] = _fixture_value(name, scope)
        yield functools.partial(_call, function, given)


def _call(function: Any, given: dict[str, Any]) -> None:
    result = function(**given)
    if inspect.iscoroutine(result):
        import asyncio  # noqa: PLC0415 - too large for the warm interpreter

        asyncio.run(result)


class _Captured(io.StringIO):
    def readouterr(self) -> SimpleNamespace:
        out = self.getvalue()
        self.seek(self.truncate(0))
        return SimpleNamespace(out=out, err="")


def _capsys() -> _Captured:
    # The state of the tests' process is restored after their run.
    captured = sys.stdout = _Captured()
    return captured


class _MonkeyPatch:
    def setattr(self, target: Any, name: Any, *value: Any) -> None:
        if not value:
            owner, _, attribute = target.rpartition(".")
            target, name, value = importlib.import_module(owner), attribute, (name,)
        setattr(target, name, value[0])

    @staticmethod
    def setenv(name: str, value: str) -> None:
        os.environ[name] = value  # noqa: TID251 - that of the tests


SETS_STATE = re.compile(r"\b(capsys|monkeypatch)\b")
_FIXTURES: dict[str, Callable[[], Any]] = {"capsys": _capsys, "monkeypatch": _MonkeyPatch}


def _fixture_value(name: str, scope: dict[str, Any]) -> Any:
    if name not in scope and name in _FIXTURES:
        return _FIXTURES[name]()
    made: Any = scope.get(name)
    if not hasattr(made, _FIXTURE):
        raise NameError(f"the jail has no fixture {name!r}")
    parameters = inspect.signature(made).parameters
    value = made(**{other: _fixture_value(other, scope) for other in parameters})
    return next(value) if inspect.isgenerator(value) else value
