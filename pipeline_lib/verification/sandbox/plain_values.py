"""The only values that cross between tests and candidate: plain ones, as tagged JSON.

int, float, complex, str, bytes, bool, None, list, tuple, set, frozenset and dict, nested, and the
names of these types themselves. Decoding makes exact builtin objects only, whatever the bytes, so
an object with an always-true ``__eq__`` arrives as the value that it wraps, or not at all. Never
pickle or marshal: both can be made to run or crash code.
"""

import json
from collections.abc import Callable
from typing import Any

_Numbering = Callable[[object], int | None]
_JSON_SAFE_INT = 1 << 64
_BUILTIN_TYPES: tuple[type, ...] = (int, float, complex, str, bytes, bool, list, tuple, set, dict)
_TYPES: dict[str, type] = {kind.__name__: kind for kind in (*_BUILTIN_TYPES, frozenset, type(None))}
_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "int": lambda digits: int(digits, 16),
    "complex": lambda parts: complex(*parts),
    "bytes": bytes.fromhex,
    "type": _TYPES.__getitem__,
}


class NotPlainError(Exception):
    """A value, or bytes that claim to be one, that may not cross."""


def encode(value: object, opaque: _Numbering) -> bytes:
    """One value as bytes.

    Args:
        value: Subclasses of plain types (Counter, namedtuple, IntEnum) travel as their base.
        opaque: Gives the number by which the other side may refer to a value that is not plain,
            or None to refuse it.

    Raises:
        NotPlainError: ``value`` holds something that is refused, or nests too deeply.
    """
    try:
        return json.dumps(_tagged(value, opaque), separators=(",", ":")).encode()
    except RecursionError as error:
        raise NotPlainError("a value that nests too deeply") from error


def decode(data: bytes, reference: Callable[[int], object]) -> Any:
    """Inverse of :func:`encode`; ``reference`` turns the number of an opaque value into a stand-in.

    Raises:
        NotPlainError: the bytes are not an encoded value.
    """

    def restore(tagged: dict[str, Any]) -> Any:
        ((tag, content),) = tagged.items()
        return reference(content) if tag == "opaque" else _CONSTRUCTORS[tag](content)

    try:
        return json.loads(data, object_hook=restore)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotPlainError(f"bytes that hold no value ({type(error).__name__})") from error


def _tagged(value: object, opaque: _Numbering) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    for kind, tagger in _TAGGERS:
        if isinstance(value, kind):
            return tagger(value, opaque)
    return _reference(value, opaque)


def _reference(value: object, opaque: _Numbering) -> Any:
    number = opaque(value)
    if number is None:
        raise NotPlainError(f"a value of type {type(value).__name__}")
    return {"opaque": number}


def _int(value: Any, _: _Numbering) -> Any:
    number = int(value)
    # Digits in base 16 take linear time, and are exempt from the limit on digits.
    return number if abs(number) < _JSON_SAFE_INT else {"int": hex(number)}


def _list(value: Any, opaque: _Numbering) -> Any:
    return [_tagged(item, opaque) for item in value]


def _dict(value: Any, opaque: _Numbering) -> Any:
    return {"dict": [[_tagged(k, opaque), _tagged(v, opaque)] for k, v in value.items()]}


def _type(value: Any, opaque: _Numbering) -> Any:
    name = value.__name__
    if _TYPES.get(name) is value:
        return {"type": name}
    return _reference(value, opaque)


def _collection(tag: str) -> Callable[[Any, _Numbering], Any]:
    return lambda value, opaque: {tag: _list(value, opaque)}


_AS_THEY_ARE = {type(None), bool, str, float}
_TAGGERS: tuple[tuple[type, Callable[[Any, _Numbering], Any]], ...] = (
    (int, _int),
    (list, _list),
    (tuple, _collection("tuple")),
    (dict, _dict),
    (set, _collection("set")),
    (str, lambda value, _: str.__str__(value)),
    (float, lambda value, _: float(value)),
    (frozenset, _collection("frozenset")),
    (complex, lambda value, _: {"complex": [value.real, value.imag]}),
    (bytes, lambda value, _: {"bytes": value.hex()}),
    (type, _type),
)
