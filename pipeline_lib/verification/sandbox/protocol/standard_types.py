"""Standard library types that are sent as plain data.

The content is sent and the object rebuilt on the other side from the same standard library class,
never from a class of the program.
"""

import array
import datetime as dt
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

_MAX_DECIMAL_EXPONENT = 100_000
"""Beyond it, a mere conversion to int would exhaust memory."""
_SINGLETONS = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}

BASIC: tuple[type, ...] = (int, float, complex, str, bytes, bool, list, tuple, set, dict)
STANDARD: tuple[type, ...] = (
    *(frozenset, bytearray, range, array.array, deque, Counter, OrderedDict, defaultdict),
    *(Decimal, Fraction, dt.datetime, dt.date, dt.time, dt.timedelta),
)
TYPES: dict[str, type] = {kind.__name__: kind for kind in (*BASIC, *STANDARD, type(None))}
"""Types that are sent by name."""

CONTENT: dict[type, Callable[[Any], tuple[str, object]]] = {
    frozenset: lambda value: ("frozenset", list(value)),
    bytearray: lambda value: ("bytearray", value.hex()),
    range: lambda value: ("range", [value.start, value.stop, value.step]),
    array.array: lambda value: ("array", [value.typecode, value.tolist()]),
    deque: lambda value: ("deque", [list(value), value.maxlen]),
    Counter: lambda value: ("Counter", list(value.items())),
    OrderedDict: lambda value: ("OrderedDict", list(value.items())),
    defaultdict: lambda value: (
        "defaultdict",
        [value.default_factory, list(value.items())],
    ),
    Decimal: lambda value: ("Decimal", str(value)),
    Fraction: lambda value: ("Fraction", [value.numerator, value.denominator]),
    dt.datetime: lambda value: ("datetime", value.isoformat()),
    dt.date: lambda value: ("date", value.isoformat()),
    dt.time: lambda value: ("time", value.isoformat()),
    dt.timedelta: lambda value: (
        "timedelta",
        [value.days, value.seconds, value.microseconds],
    ),
    type({}.keys()): lambda value: ("keys", list(value)),
    type({}.values()): lambda value: ("values", list(value)),
    type({}.items()): lambda value: ("items", list(value)),
    type(Ellipsis): lambda _: ("singleton", "Ellipsis"),
    type(NotImplemented): lambda _: ("singleton", "NotImplemented"),
}
"""By exact type: function from a value to its tag and content; parts are encoded recursively."""


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT:
        raise ValueError("exponent")
    return value


def _make_namedtuple(name: str, fields: Sequence[str], items: Sequence[object]) -> tuple[Any, ...]:
    # A function in a field would act as a method.
    if any(type(item) not in TYPES.values() and not isinstance(item, tuple) for item in items):
        raise TypeError("not plain")
    # namedtuple itself checks that these are identifiers.
    kind = namedtuple(name, [str(field) for field in fields])  # type: ignore[misc]
    made: tuple[Any, ...] = kind(*items)
    return made


CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    "frozenset": frozenset,
    "bytearray": bytearray.fromhex,
    "range": lambda parts: range(*parts),
    "array": lambda parts: array.array(*parts),
    "deque": lambda parts: deque(*parts),
    "Counter": lambda pairs: Counter(dict(pairs)),
    "OrderedDict": OrderedDict,
    "defaultdict": lambda parts: defaultdict(*parts),
    "Decimal": _decimal,
    "Fraction": lambda parts: Fraction(*parts),
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": lambda parts: dt.timedelta(*parts),
    "keys": lambda keys: dict.fromkeys(keys).keys(),
    "values": lambda values: dict(enumerate(values)).values(),
    "items": lambda pairs: dict(pairs).items(),
    "singleton": _SINGLETONS.__getitem__,
    "namedtuple": lambda parts: _make_namedtuple(*parts),
}
"""Inverse of CONTENT and of the encoding of named tuples, by tag."""
