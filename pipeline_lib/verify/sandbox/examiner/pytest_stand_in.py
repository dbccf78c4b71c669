"""Stand-in for the parts of pytest that tests of programs use; the jail has no pytest."""

import contextlib
import inspect
import math
import re
from collections.abc import Iterator, Sequence
from numbers import Number
from types import SimpleNamespace
from typing import Any, NoReturn

from pipeline_lib.verify.sandbox.examiner.rewriting import to_original

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
        self._least = 1e-12 if abs is None else abs
        self._rel = (1e-6 if abs is None else 0.0) if rel is None else rel
        self._nan_ok = nan_ok

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]
        return self._agree(self.expected, other)

    def _agree(self, expected: Any, other: Any) -> bool:
        if hasattr(expected, "tolist"):
            expected, other = expected.tolist(), getattr(other, "tolist", lambda: other)()
        if isinstance(expected, dict):
            return (
                isinstance(other, dict)
                and expected.keys() == other.keys()
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
        if expected != expected:  # noqa: PLR0124 - NaN
            return bool(self._nan_ok and other != other)  # noqa: PLR0124
        if expected == other or math.isinf(expected.real):
            return bool(expected == other)
        relative = self._rel and self._rel * type(self._least)(abs(expected))
        return bool(abs(other - expected) <= max(self._least, relative))


@contextlib.contextmanager
def _raises(kinds: Any, match: str | None) -> Iterator[Any]:
    caught = SimpleNamespace(value=None, type=None)
    try:
        yield caught
    except BaseException as error:
        caught.value = to_original(error)
        if not isinstance(caught.value, kinds):
            raise
        caught.type = type(caught.value)
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


class param(list[Any]):  # noqa: N801 - pytest's name
    """One case of ``parametrize``."""

    def __init__(self, *values: Any, **_: Any) -> None:
        super().__init__(values)


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
            is_row = len(fields) > 1
            lists = [one if is_row or isinstance(one, param) else [one] for one in cases]
            rows = [dict(zip(fields, values, strict=True)) for values in lists]
            earlier = getattr(function, _CASES, [{}])
            setattr(function, _CASES, [{**one, **other} for one in rows for other in earlier])
            return function

        return mark


mark = _Marks()


def run(function: Any, scope: dict[str, Any]) -> None:
    """Run one test, once for each case, with fixtures by the names of parameters.

    Raises:
        NameError: a parameter is neither.
    """
    for case in getattr(function, _CASES, [{}]):
        given = dict(case)
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in given and parameter.default is parameter.empty:
                given[name] = _fixture_value(name, scope)
        result = function(**given)
        if inspect.iscoroutine(result):
            import asyncio  # noqa: PLC0415 - too large for the warm interpreter

            asyncio.run(result)


def _fixture_value(name: str, scope: dict[str, Any]) -> Any:
    made: Any = scope.get(name)
    if getattr(made, _FIXTURE, False) is not True:
        raise NameError(f"the jail has no fixture {name!r}")
    parameters = inspect.signature(made).parameters
    value = made(**{other: _fixture_value(other, scope) for other in parameters})
    return next(value) if inspect.isgenerator(value) else value
