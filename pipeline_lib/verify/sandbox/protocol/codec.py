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

from pipeline_lib.verify.sandbox.protocol.standard_types import (
    CONSTRUCTORS,
    STANDARD,
    TYPES,
    array_content,
)

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
        return dumps(tagged(value, opaque), separators=(",", ":")).encode()
    except RecursionError as error:
        raise NotPlainError("a value that nests too deeply") from error
    finally:
        sys.setrecursionlimit(limit)


def decode(data: bytes, reference: Callable[[Any], object]) -> Any:
    """Inverse of :func:`encode`; ``reference`` turns what ``opaque`` gave into a proxy.

    Raises:
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
    if (content := array_content(value)) is not None:
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
    *((kind, _listed(kind.__name__, arguments)) for kind, (arguments, _) in STANDARD.items()),
)
_TAGGERS = dict(_BASES)
_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    **{tag: _applied(made) for tag, made in CONSTRUCTORS.items()},
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "int": lambda digits: int(digits, 16),
    "complex": _applied(complex),
    "bytes": bytes.fromhex,
    "type": TYPES.__getitem__,
    "sub": lambda value: value,
}
