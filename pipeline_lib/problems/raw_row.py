"""One row of a data set as published. Values are read with errors that name file, line and key."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row, its place, and its number (from 0) within its split."""

    fields: Mapping[str, Any]
    where: str
    """File and line, or hub id and row."""
    index: int

    def text(self, *names: str) -> str:
        """The text under the first of ``names``; BadInputError if it is missing, or neither text nor a finite number."""
        value = self._value(names)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refused(names, f"expected text or a finite number, got {value}")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._refused(names, f"expected text, got {type(value).__name__}")
        return str(value)

    def whole(self, name: str) -> int:
        """The integer under ``name``."""
        value = self._value([name])
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._refused([name], f"expected an integer, got {value!r}")
        return value

    def texts(self, name: str) -> list[str]:
        """The non-empty list of texts under ``name``."""
        value = self._value([name])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._refused([name], "expected a list of texts")
        if not value:
            raise self._refused([name], "the list is empty")
        return value

    def has(self, name: str) -> bool:
        """True if there is a value under ``name``."""
        return self.fields.get(name) is not None

    def error(self, key: str, complaint: str) -> BadInputError:
        """The error of a value under ``key`` that cannot be used."""
        return BadInputError(f"{self.where}: {key!r}: {complaint}; correct or remove the row")

    def _value(self, names: Sequence[str]) -> Any:
        for name in names:
            if self.has(name):
                return self.fields[name]
        raise self._refused(names, f"missing; the row has {', '.join(sorted(self.fields))}")

    def _refused(self, names: Sequence[str], complaint: str) -> BadInputError:
        return self.error(" or ".join(names), complaint)
