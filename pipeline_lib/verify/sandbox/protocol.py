"""Protocol of tests and candidate: length-prefixed frames over a socket, which hold plain values as JSON.

Plain are int, float, complex, str, bytes, bool, None, list, tuple, set, frozenset, dict, types of the
standard library and of NumPy (``_STANDARD``, arrays), nestings of these, and the types themselves.
Decoding creates objects of exactly these types, whatever the bytes, so an object with an always-true
``__eq__`` arrives as the value that it wraps, or not at all. Never pickle or marshal: decoding them
can run or crash code. NumPy is imported where a program or its tests did.

Objects of classes that tests and program both define are sent as their attributes (`Records`). Such a
class is given by the prompt, as nodes of lists and trees are, or written twice, as a dataclass is.
The other side makes an object of its own class: nothing of the program's class, and no function in an
attribute, reaches the tests.
"""

import array
import datetime as dt
import os
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from json import dumps, loads
from typing import Any

MAX_FRAME_BYTES = 32 << 20
_HEADER = struct.Struct("!I")
_READ_BYTES = 1 << 16


class ChannelClosedError(Exception):
    """The other side closed the connection."""


class FrameTooLargeError(Exception):
    """A frame above MAX_FRAME_BYTES was sent or announced."""


class Channel:
    """One end of a pair of stream sockets.

    It uses the bare descriptor, which its owner closes: a socket object would add to the pages that
    a forked process copies.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._received = bytearray()

    def send(self, frame: bytes) -> None:
        """Send one frame whole."""
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{len(frame)} bytes")
        left = memoryview(_HEADER.pack(len(frame)) + frame)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except (BrokenPipeError, ConnectionResetError) as error:
                raise ChannelClosedError from error

    def receive(self) -> bytes:
        """Receive one frame whole."""
        (length,) = _HEADER.unpack(self._take(_HEADER.size))
        if length > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"{length} bytes")
        return self._take(length)

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            try:
                part = os.read(self._descriptor, _READ_BYTES)
            except ConnectionResetError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken


_MAX_DECIMAL_EXPONENT = 100_000
"""Beyond it, a mere conversion to int would exhaust memory."""


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if value.is_finite() and abs(value.adjusted()) > _MAX_DECIMAL_EXPONENT:
        raise ValueError("exponent")
    return value


_STANDARD: dict[type, tuple[Callable[[Any], list[object]], Callable[..., Any]]] = {
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
TYPES: dict[str, type] = {kind.__name__: kind for kind in (*_BASIC, *_STANDARD)}
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


def _array_content(value: object) -> tuple[str, list[object]] | None:
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


_Describe = Callable[[object], object]
_JSON_SAFE_INT = 1 << 64
_DEPTH = 8_000
"""Frames of Python beyond the caller's; a list takes three, so 1,000 nested lists are encoded."""
SUBCLASS_MARK = b'{"sub":'
"""Marks a plain value whose class was defined by the program. It cannot occur in text: quotes
inside JSON strings are escaped."""
_OF_CONTENT = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class NotPlainError(Exception):
    """A value that cannot be encoded, or bytes that cannot be decoded."""


def encode(value: object, opaque: _Describe) -> bytes:
    """One value as bytes; NotPlainError if it holds something that is refused, or nests too deeply.

    Instances of subclasses of plain types (IntEnum, a class of the program) are encoded as their base;
    ``opaque`` maps a value that is not plain to a reference for the other side, or None to refuse.
    """
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + _DEPTH)
        return dumps(tagged(value, opaque), separators=(",", ":")).encode()
    except RecursionError as error:
        raise NotPlainError("a value that nests too deeply") from error
    finally:
        sys.setrecursionlimit(limit)


def decode(data: bytes, reference: Callable[[Any], object]) -> Any:
    """Inverse of :func:`encode`; ``reference`` turns what ``opaque`` gave into a proxy.

    NotPlainError: the bytes are not an encoded value.
    """

    def restore(pair: dict[str, Any]) -> Any:
        ((tag, content),) = pair.items()
        return reference(content) if tag == "opaque" else _CONSTRUCTORS[tag](content)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + _DEPTH)
        return loads(data, object_hook=restore)
    except _OF_CONTENT as error:
        raise NotPlainError(f"bytes that hold no value ({type(error).__name__})") from error
    finally:
        sys.setrecursionlimit(limit)


def tagged(value: object, opaque: _Describe) -> Any:
    """A value in the form that is sent; ``opaque`` may return it as a part of its reference."""
    kind = type(value)
    if kind in _UNTAGGED:
        return value
    tagger = _TAGGERS.get(kind)
    return _tag_other(value, opaque) if tagger is None else tagger(value, opaque)


def _tag_other(value: object, opaque: _Describe) -> Any:
    """A type, an instance of a subclass, or something that is not plain."""
    if isinstance(value, type) and TYPES.get(value.__name__) is value:
        return {"type": value.__name__}
    if (content := _array_content(value)) is not None:
        tag, arguments = content
        return {tag: _list(arguments, opaque)}
    fields = getattr(type(value), "_fields", None)
    if isinstance(value, tuple) and isinstance(fields, tuple):
        return {"namedtuple": [type(value).__name__, list(fields), _list(tuple(value), opaque)]}
    for kind, tagger in _BASES:
        if isinstance(value, kind):
            return {"sub": tagger(value, opaque)}
    if (reference := opaque(value)) is None:
        raise NotPlainError(f"a value of type {type(value).__name__}")
    return {"opaque": reference}


def _int(value: Any, _: _Describe) -> Any:
    number = int(value)
    # Hexadecimal takes linear time and is exempt from the limit on digits.
    return number if abs(number) < _JSON_SAFE_INT else {"int": hex(number)}


def _list(value: Any, opaque: _Describe) -> Any:
    return [tagged(item, opaque) for item in value]


def _dict(value: Any, opaque: _Describe) -> Any:
    return {"dict": [[tagged(k, opaque), tagged(v, opaque)] for k, v in value.items()]}


def _listed(tag: str, parts: Callable[[Any], Any]) -> Callable[[Any, _Describe], Any]:
    return lambda value, opaque: {tag: _list(parts(value), opaque)}


def _applied(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda arguments: function(*arguments)


_UNTAGGED = {type(None), bool, str, float}
_BASES: tuple[tuple[type, Callable[[Any, _Describe], Any]], ...] = (
    (int, _int),
    (list, _list),
    (tuple, _listed("tuple", iter)),
    (dict, _dict),
    (set, _listed("set", iter)),
    (str, lambda value, _: str.__str__(value)),
    (float, lambda value, _: float.__float__(value)),
    (complex, lambda value, _: {"complex": [value.real, value.imag]}),
    (bytes, lambda value, _: {"bytes": value.hex()}),
    *((kind, _listed(kind.__name__, arguments)) for kind, (arguments, _) in _STANDARD.items()),
)
_TAGGERS = dict(_BASES)
_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    **{kind.__name__: _applied(made) for kind, (_, made) in _STANDARD.items()},
    "namedtuple": _applied(_namedtuple),
    "ndarray": _applied(_array),
    "scalar": _applied(_scalar),
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "int": lambda digits: int(digits, 16),
    "complex": _applied(complex),
    "bytes": bytes.fromhex,
    "type": TYPES.__getitem__,
    "sub": lambda value: value,
}


class Records:
    """Records of one side: ``find`` its class of a name; objects of shared classes are sent as records."""

    def __init__(
        self, find: Callable[[str], type | None], is_shared: Callable[[type], bool]
    ) -> None:
        self._find = find
        self._is_shared = is_shared
        self._written: dict[int, int] = {}
        self._read: dict[int, Any] = {}

    def begin(self) -> None:
        """Begin another frame; numbers of objects are of one frame."""
        self._written.clear()
        self._read.clear()

    def content(self, value: object) -> list[Any] | None:
        """A reference that holds the attributes of a record; None of another value."""
        kind = type(value)
        if isinstance(value, type | BaseException) or not self._is_shared(kind):
            return None
        if isinstance(value, Enum):
            return ["member", kind.__name__, value.name]
        number = self._written.get(id(value))
        if number is not None:
            return ["record", kind.__name__, number]
        is_outer = not self._written
        number = self._written[id(value)] = len(self._written)
        try:
            return ["record", kind.__name__, number, tagged(_attributes(value), self.content)]
        except NotPlainError:
            if not is_outer:
                raise
            self._written.clear()
            return None

    def made(self, content: list[Any]) -> Any:
        """The object of the own class that a reference describes.

        NotPlainError: there is no such class, or an attribute would hide one of its methods.
        """
        match content:
            case ["member", str(name), str(member)] if kind := self._find(name):
                return kind[member]  # type: ignore[index]
            case ["record", str(name), int(number), *rest] if kind := self._find(name):
                made = self._read.get(number)
                if made is None:
                    made = self._read[number] = kind.__new__(kind)  # type: ignore[call-overload]
                for name, value in rest[0].items() if rest else ():
                    if name.startswith("__") or callable(getattr(kind, name, None)):
                        raise NotPlainError("an attribute in place of a method")
                    object.__setattr__(made, name, value)
                return made
            case _:
                raise NotPlainError("a reference that is none")


def _attributes(value: object) -> dict[str, object]:
    """The attributes of an object, in slots or not."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**found, **getattr(value, "__dict__", {})}
