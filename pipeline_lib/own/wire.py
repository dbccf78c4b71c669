"""Values of calls as JSON; problems and verdicts keep their types."""

import json
from typing import Any

from pipeline_lib.records import Problem
from pipeline_lib.verdicts import Verdict

_RECORDS: dict[str, type[Problem | Verdict]] = {
    f"reasonloop {one.__name__}": one for one in (Problem, Verdict)
}


def encoded(value: Any) -> bytes:
    """A value as JSON, numbers of NumPy as plain ones; TypeError: it is none of JSON's."""
    return json.dumps(value, default=_plain).encode()


def decoded(message: bytes) -> Any:
    """Inverse of `encoded`; tuples become lists."""
    return json.loads(message, object_hook=_restored)


def _plain(value: Any) -> Any:
    for name, record in _RECORDS.items():
        if isinstance(value, record):
            return {name: value.row()}
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no value of JSON")


def _restored(value: dict[str, Any]) -> Any:
    [name, *others] = value or [""]
    return value if others or name not in _RECORDS else _RECORDS[name].from_row(value[name])
