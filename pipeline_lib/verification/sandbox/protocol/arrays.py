"""Arrays and scalars of NumPy as plain data; NumPy is imported where a program or its tests did."""

import sys
from collections.abc import Callable
from typing import Any

_SCALARS = frozenset("biufcUS")
_KINDS = _SCALARS | frozenset("mM")
"""Kinds of dtypes that are bytes alone."""


def array_content(value: object) -> tuple[str, object] | None:
    """Tag and content of an array or a scalar; None of another value."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
        return None
    kind = value.dtype.kind
    if isinstance(value, numpy.generic):
        return ("scalar", [value.dtype.str, value.item()]) if kind in _SCALARS else None
    content = value.tobytes().hex() if kind in _KINDS else value.tolist() if kind == "O" else None
    return None if content is None else ("ndarray", [value.dtype.str, list(value.shape), content])


def _array(parts: Any) -> Any:
    import numpy as np  # noqa: PLC0415 - not of the standard library

    dtype, shape, content = parts
    if isinstance(content, str):
        return np.frombuffer(bytes.fromhex(content), np.dtype(dtype)).reshape(shape).copy()
    made = np.array(content, object)
    if list(made.shape) != shape:
        raise ValueError("shape")
    return made


def _scalar(parts: Any) -> Any:
    numpy = sys.modules.get("numpy")
    dtype, value = parts
    if numpy is None:
        return value
    if numpy.dtype(dtype).kind not in _SCALARS:
        raise ValueError("kind of dtype")
    return numpy.dtype(dtype).type(value)


ARRAY_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {"ndarray": _array, "scalar": _scalar}
"""Inverse of :func:`array_content`, by tag."""
