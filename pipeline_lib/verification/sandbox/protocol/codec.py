"""Codec of the plain values exchanged between tests and candidate: tagged JSON.

Plain are int, float, complex, str, bytes, bool, None, list, tuple, set, frozenset, dict, the
standard library's `standard_types`, nestings of these, and the types themselves. Decoding creates
objects of exactly these types, whatever the bytes, so an object with an always-true ``__eq__``
arrives as the value that it wraps, or not at all. Never pickle or marshal: decoding them can run or
crash code.
"""

import sys
from collections.abc import Callable
from json import dumps, loads
from typing import Any

from pipeline_lib.verification.sandbox.protocol.arrays import ARRAY_CONSTRUCTORS, array_content
from pipeline_lib.verification.sandbox.protocol.standard_types import CONSTRUCTORS, CONTENT, TYPES

_Describe = Callable[[object], object]
_JSON_SAFE_INT = 1 << 64
_DEPTH = 8_000
"""Frames of Python beyond the caller's; a list takes three, so 1,000 nested lists are encoded."""
SUBCLASS_MARK = b'{"sub":'
"""Marks a plain value whose class was defined by the program. It cannot occur in text: quotes
inside JSON strings are escaped."""


class NotPlainError(Exception):
    """A value that cannot be encoded, or bytes that cannot be decoded."""


def encode(value: object, opaque: _Describe) -> bytes:
    """One value as bytes.

    Args:
        value: Instances of subclasses of plain types (IntEnum, a class of the program) are encoded
            as their base.
        opaque: Maps a value that is not plain to a reference for the other side, or None to refuse.

    Raises:
        NotPlainError: ``value`` holds something that is refused, or nests too deeply.
    """
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + _DEPTH)
        return dumps(_tag(value, opaque), separators=(",", ":")).encode()
    except RecursionError as error:
        raise NotPlainError("a value that nests too deeply") from error
    finally:
        sys.setrecursionlimit(limit)


def parts(value: object, opaque: _Describe) -> Any:
    """A value in the form that ``opaque`` may return as a part of its reference."""
    return _tag(value, opaque)


def decode(data: bytes, reference: Callable[[Any], object]) -> Any:
    """Inverse of :func:`encode`; ``reference`` turns what ``opaque`` gave into a proxy.

    Raises:
        NotPlainError: the bytes are not an encoded value.
    """

    def restore(tagged: dict[str, Any]) -> Any:
        ((tag, content),) = tagged.items()
        return reference(content) if tag == "opaque" else _CONSTRUCTORS[tag](content)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + _DEPTH)
        return loads(data, object_hook=restore)
    except (
        *(ValueError, TypeError, LookupError, RecursionError),
        *(ArithmeticError, AttributeError),
    ) as error:
        raise NotPlainError(f"bytes that hold no value ({type(error).__name__})") from error
    finally:
        sys.setrecursionlimit(limit)


def _tag(value: object, opaque: _Describe) -> Any:
    kind = type(value)
    if kind in _UNTAGGED:
        return value
    tagger = _TAGGERS.get(kind)
    return _tag_other(value, opaque) if tagger is None else tagger(value, opaque)


def _tag_other(value: object, opaque: _Describe) -> Any:
    """A type, an instance of a subclass, or something that is not plain."""
    if isinstance(value, type):
        return _type(value, opaque)
    if (content := array_content(value)) is not None:
        tag, inner = content
        return {tag: _tag(inner, opaque)}
    fields = getattr(type(value), "_fields", None)
    if isinstance(value, tuple) and isinstance(fields, tuple):
        return {"namedtuple": [type(value).__name__, list(fields), _list(tuple(value), opaque)]}
    for kind, tagger in _BASES:
        if isinstance(value, kind):
            return {"sub": tagger(value, opaque)}
    return _reference(value, opaque)


def _reference(value: object, opaque: _Describe) -> Any:
    content = opaque(value)
    if content is None:
        raise NotPlainError(f"a value of type {type(value).__name__}")
    return {"opaque": content}


def _int(value: Any, _: _Describe) -> Any:
    number = int(value)
    # Hexadecimal takes linear time and is exempt from the limit on digits.
    return number if abs(number) < _JSON_SAFE_INT else {"int": hex(number)}


def _list(value: Any, opaque: _Describe) -> Any:
    return [_tag(item, opaque) for item in value]


def _dict(value: Any, opaque: _Describe) -> Any:
    return {"dict": [[_tag(k, opaque), _tag(v, opaque)] for k, v in value.items()]}


def _type(value: type, opaque: _Describe) -> Any:
    name = value.__name__
    if TYPES.get(name) is value:
        return {"type": name}
    return _reference(value, opaque)


def _collection(tag: str) -> Callable[[Any, _Describe], Any]:
    return lambda value, opaque: {tag: _list(value, opaque)}


def _standard(kind: type) -> Callable[[Any, _Describe], Any]:
    content = CONTENT[kind]

    def tagged(value: Any, opaque: _Describe) -> Any:
        tag, parts = content(value)
        return {tag: _tag(parts, opaque)}

    return tagged


_UNTAGGED = {type(None), bool, str, float}
_BASES: tuple[tuple[type, Callable[[Any, _Describe], Any]], ...] = (
    (int, _int),
    (list, _list),
    (tuple, _collection("tuple")),
    (dict, _dict),
    (set, _collection("set")),
    (str, lambda value, _: str.__str__(value)),
    (float, lambda value, _: float.__float__(value)),
    (complex, lambda value, _: {"complex": [value.real, value.imag]}),
    (bytes, lambda value, _: {"bytes": value.hex()}),
    *((kind, _standard(kind)) for kind in CONTENT),
)
_TAGGERS = dict(_BASES)
_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    **CONSTRUCTORS,
    **ARRAY_CONSTRUCTORS,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "int": lambda digits: int(digits, 16),
    "complex": lambda parts: complex(*parts),
    "bytes": bytes.fromhex,
    "type": TYPES.__getitem__,
    "sub": lambda value: value,
}
