"""Types of the standard library and of NumPy that are sent as plain data.

The content is sent and the object rebuilt on the other side from the same class of the library,
never from a class of the program. NumPy is imported where a program or its tests did.
"""

import array
import datetime as dt
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

_MAX_DECIMAL_EXPONENT = 100_000
"""Beyond it, a mere conversion to int would exhaust memory."""


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT:
        raise ValueError("exponent")
    return value


STANDARD: dict[type, tuple[Callable[[Any], list[object]], Callable[..., Any]]] = {
    frozenset: (lambda value: [list(value)], frozenset),
    bytearray: (lambda value: [value.hex()], bytearray.fromhex),
    range: (lambda value: [value.start, value.stop, value.step], range),
    array.array: (lambda value: [value.typecode, value.tolist()], array.array),
    deque: (lambda value: [list(value), value.maxlen], deque),
    Counter: (lambda value: [dict(value)], Counter),
    OrderedDict: (lambda value: [list(value.items())], OrderedDict),
    defaultdict: (lambda value: [value.default_factory, dict(value)], defaultdict),
    Decimal: (lambda value: [str(value)], _decimal),
    Fraction: (lambda value: [value.numerator, value.denominator], Fraction),
    dt.datetime: (lambda value: [value.isoformat()], dt.datetime.fromisoformat),
    dt.date: (lambda value: [value.isoformat()], dt.date.fromisoformat),
    dt.time: (lambda value: [value.isoformat()], dt.time.fromisoformat),
    dt.timedelta: (lambda value: [value.days, value.seconds, value.microseconds], dt.timedelta),
    type({}.keys()): (lambda value: [list(value)], lambda keys: dict.fromkeys(keys).keys()),
    type({}.values()): (lambda value: [list(value)], lambda items: dict(enumerate(items)).values()),
    type({}.items()): (lambda value: [list(value)], lambda pairs: dict(pairs).items()),
    type(Ellipsis): (lambda _: [], type(Ellipsis)),
    type(NotImplemented): (lambda _: [], type(NotImplemented)),
}
"""By exact type: arguments that describe a value, sent recursively, and the function of them that makes it."""
_BASIC = (int, float, complex, str, bytes, bool, list, tuple, set, dict, type(None))
TYPES: dict[str, type] = {kind.__name__: kind for kind in (*_BASIC, *STANDARD)}
"""Types that are sent by name."""
_SCALARS = frozenset("biufcUS")
_ARRAYS = _SCALARS | frozenset("mM")
"""Kinds of dtypes that are bytes alone."""


def _namedtuple(name: str, fields: Sequence[str], items: Sequence[object]) -> Any:
    """A named tuple, of a class made here."""
    # A function in a field would act as a method.
    if any(type(item) not in TYPES.values() and not isinstance(item, tuple) for item in items):
        raise TypeError("not plain")
    # namedtuple itself checks that these are identifiers.
    kind = namedtuple(name, [str(field) for field in fields])  # type: ignore[misc]
    return kind(*items)


def array_content(value: object) -> tuple[str, list[object]] | None:
    """Tag and arguments that describe an array or a scalar; None of another value."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
        return None
    kind = value.dtype.kind
    if isinstance(value, numpy.generic):
        return ("scalar", [value.dtype.str, value.item()]) if kind in _SCALARS else None
    content = value.tobytes().hex() if kind in _ARRAYS else value.tolist() if kind == "O" else None
    return None if content is None else ("ndarray", [value.dtype.str, list(value.shape), content])


def _array(dtype: str, shape: list[int], content: Any) -> Any:
    import numpy as np  # noqa: PLC0415 - not of the standard library

    if isinstance(content, str):
        return np.frombuffer(bytes.fromhex(content), np.dtype(dtype)).reshape(shape).copy()
    made = np.array(content, object)
    if list(made.shape) != shape:
        raise ValueError("shape")
    return made


def _scalar(dtype: str, value: object) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    if numpy.dtype(dtype).kind not in _SCALARS:
        raise ValueError("kind of dtype")
    return numpy.dtype(dtype).type(value)


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: made for kind, (_, made) in STANDARD.items()},
    "namedtuple": _namedtuple,
    "ndarray": _array,
    "scalar": _scalar,
}
"""Functions of the arguments that describe a value, by tag."""
