"""The negative control: the same tests, each assert asking for another value than it does.

An assert that holds then, too, does not compare what the program computed: the program cheats, or the
comparison is vacuous, as every order with NaN is.
"""

import builtins
import math
from collections.abc import Callable
from typing import Any

ALTERED, FAR, APART = "__altered__", "__far__", "__apart__"
"""The names under which tests find :func:`altered`, :func:`far` and :func:`apart`."""
CHECKED, DECIDE = "__checked__", "__decide__"
_FAR = 10**9
"""Beyond any tolerance, in multiples of the value."""
_DEPTH = 3


class VacuousError(BaseException):
    """An assert holds whatever it asks for. Not an Exception: tests must not be able to catch it."""

    def __init__(self, what: str, *, is_proven: bool) -> None:
        super().__init__(what)
        self.is_proven = is_proven
        """Whether the program is to blame, rather than the tests."""


class Control:
    """What the altered asserts of one run came to.

    Args:
        sends_nan: Whether the candidate has sent a NaN that the tests do not ask for.
    """

    def __init__(self, sends_nan: Callable[[], bool]) -> None:
        self._sends_nan = sends_nan
        self._has_failed = False
        self.num_decided = 0
        self.vacuous: VacuousError | None = None

    def end(self) -> None:
        """The tests came to their end; that none of their failures was seen is a finding, too."""
        if self._has_failed and self.vacuous is None:
            self._is_vacuous("the tests swallow a failed assert", proven=True)

    def names(self) -> dict[str, Any]:
        """What `assert_rewriting` compiles into the tests, and builtins that look for NaN first."""
        return {
            ALTERED: altered,
            FAR: far,
            APART: apart,
            CHECKED: self._checked,
            DECIDE: self._decide,
            "min": self._ordering(min),
            "max": self._ordering(max),
            "sorted": self._ordering(sorted),
            "zip": self._zip,
        }

    def _decide(self, holds: object, *, fails: bool) -> None:
        """Take note of one altered assert; one that might be swallowed fails as it would have."""
        self.num_decided += 1
        if holds:
            raise self._is_vacuous("passes the tests with an expected value altered", proven=True)
        if self._has_failed:
            raise self._is_vacuous("the tests swallow a failed assert", proven=True)
        if fails:
            self._has_failed = True
            raise AssertionError("altered")

    def _checked(self, value: Any) -> Any:
        """The operand of an order; NaN makes every order false, so its negation true."""
        if _holds_nan(value, _DEPTH):
            raise self._is_vacuous("a comparison with NaN", proven=self._sends_nan())
        return value

    def _ordering(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: function(*map(self._checked, args), **kwargs)

    def _zip(self, *columns: Any, **options: Any) -> Any:
        lengths = {len(column) for column in columns if isinstance(column, list | tuple | str)}
        if len(lengths) > 1 and 0 in lengths:
            raise self._is_vacuous("the comparison of nothing with something", proven=False)
        return builtins.zip(*columns, **options)  # noqa: B905 - as the tests ask

    def _is_vacuous(self, what: str, *, proven: bool) -> VacuousError:
        self.vacuous = VacuousError(what, is_proven=proven)
        return self.vacuous


def altered(value: Any) -> Any:
    """Another value of the same kind, far from ``value``."""
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value)
    return "~"


def far(value: Any) -> Any:
    """Another number, farther from ``value`` than any tolerance."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    if isinstance(value, int | float | complex):
        return value + _FAR * (1 + abs(value))
    return altered(value)


def apart(container: Any) -> Any:
    """A container that holds none of what ``container`` does; the empty text is in every text."""
    return "~" if isinstance(container, str) else ["~"]


_CHANGES: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (bool, lambda value: not value),
    (float, lambda value: value + 1 + abs(value) if math.isfinite(value) else 0.0),
    ((int, complex), lambda value: value + 1 + abs(value)),
    (str, lambda value: value + "~"),
    ((list, tuple), lambda value: [*value, "~"] if isinstance(value, list) else (*value, "~")),
    ((set, frozenset), lambda value: value ^ {"~"}),
    (dict, lambda value: {**value, "~": "~"}),
)


def _holds_nan(value: object, depth: int) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if depth == 0 or not isinstance(value, list | tuple | set):
        return False
    return any(_holds_nan(part, depth - 1) for part in value)
