"""Values of calls as JSON; problems and verdicts keep their types."""

import functools
import json
from typing import Any


@functools.cache
def _records() -> dict[str, Any]:
    # In the tasks environment they are not needed, and cannot be imported.
    from pipeline_lib.records import Problem  # noqa: PLC0415
    from pipeline_lib.verdicts import Verdict  # noqa: PLC0415

    return {f"reasonloop {one.__name__}": one for one in (Problem, Verdict)}


def encoded(value: Any) -> bytes:
    """A value as JSON, numbers of NumPy as plain ones; TypeError: it is none of JSON's."""
    return json.dumps(value, default=_plain).encode()


def decoded(message: bytes) -> Any:
    """Inverse of `encoded`; tuples become lists."""
    return json.loads(message, object_hook=_restored)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    for name, record in _records().items():
        if isinstance(value, record):
            return {name: value.row()}
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def _restored(value: dict[str, Any]) -> Any:
    [name, *others] = value or [""]
    is_record = not others and name.startswith("reasonloop ") and name in _records()
    return _records()[name].from_row(value[name]) if is_record else value
