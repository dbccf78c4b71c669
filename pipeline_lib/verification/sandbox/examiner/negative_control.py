"""The negative control: the same tests with asserts altered to expect another value.

An altered assert that still holds does not depend on the value that the program computed: the
program cheats, or the comparison is vacuous, as every order comparison with NaN is.
"""

import builtins
import math
from collections.abc import Callable
from typing import Any

ALTERED, FAR, APART = "__altered__", "__far__", "__apart__"
"""Names of :func:`alter`, :func:`shift_far` and :func:`disjoint` in the rewritten tests."""
CHECKED, DECIDE = "__checked__", "__decide__"
_FAR = 10**9
"""A multiple of the value, beyond any tolerance."""
_DEPTH = 3


class VacuousError(BaseException):
    """An assert holds whatever it expects. Not an Exception: tests must not be able to catch it."""

    def __init__(self, what: str, *, is_proven: bool) -> None:
        super().__init__(what)
        self.is_proven = is_proven
        """True if the program is at fault, not the tests."""


class NegativeControl:
    """Outcomes of the altered asserts of one run.

    Args:
        sends_nan: Returns True if the candidate has sent a NaN that the tests do not mention.
    """

    def __init__(self, sends_nan: Callable[[], bool]) -> None:
        self._sends_nan = sends_nan
        self._has_failed = False
        self.num_decided = 0
        self.vacuous: VacuousError | None = None

    def end(self) -> None:
        """Call after the tests have passed: a failed assert was then swallowed."""
        if self._has_failed and self.vacuous is None:
            self._is_vacuous("the tests swallow a failed assert", proven=True)

    def names(self) -> dict[str, Any]:
        """Names used by the rewritten asserts, and builtins that check for NaN first."""
        return {
            ALTERED: alter,
            FAR: shift_far,
            APART: disjoint,
            CHECKED: self._checked,
            DECIDE: self._decide,
            "min": self._ordering(min),
            "max": self._ordering(max),
            "sorted": self._ordering(sorted),
            "zip": self._zip,
        }

    def _decide(self, holds: object, *, fails: bool) -> None:
        """Record one altered assert; ``fails``: raise AssertionError, as the assert would."""
        self.num_decided += 1
        if holds:
            raise self._is_vacuous("passes the tests with an expected value altered", proven=True)
        if self._has_failed:
            raise self._is_vacuous("the tests swallow a failed assert", proven=True)
        if fails:
            self._has_failed = True
            raise AssertionError("altered")

    def _checked(self, value: Any) -> Any:
        """The operand of an order comparison, which is vacuous with NaN."""
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


def alter(value: Any) -> Any:
    """A different value of the same type, far from ``value``."""
    for kind, change in _CHANGES:
        if isinstance(value, kind):
            return change(value)
    return "~"


def shift_far(value: Any) -> Any:
    """A number that differs from ``value`` by more than any tolerance."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    if isinstance(value, int | float | complex):
        return value + _FAR * (1 + abs(value))
    return alter(value)


def disjoint(container: Any) -> Any:
    """A container without any element of ``container``; not empty, since "" is in every string."""
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
