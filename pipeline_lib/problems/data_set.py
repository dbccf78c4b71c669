"""A data set that is loaded: the layout of its files, the parser of its rows, and a row as published."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline_lib.errors import BadInputError
from pipeline_lib.records import Problem

BY_SPLIT = ("{split}.jsonl", "{split}.jsonl.gz", "{split}-*.parquet", "data/{split}-*.parquet")
"""Usual patterns of a split's files: JSON lines, or a hub's parquet export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row, its place, and its number (from 0) within its split. Errors name file, line and key."""

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


class RowParser(Protocol):
    """Parser of a row, which may be several problems."""

    def __call__(self, row: RawRow, *, id_prefix: str, source: str) -> Problem | Sequence[Problem]:
        """The problem of ``row``; its id is the row's own, or ``id_prefix`` and the row's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set in its publisher's format."""

    parse: RowParser
    splits: tuple[str, ...]
    patterns: tuple[str, ...] = BY_SPLIT
    """Globs of a split's files in a folder; the first that matches any file is used."""
    hub_config: str | None = None
    is_in: Callable[[RawRow, str], bool] = lambda _row, _split: True
    """True if a row belongs to a split, for files that hold several splits."""
    published_splits: Mapping[str, str] = field(default_factory=dict)
    """The publisher's name of a split, where it differs from the name here."""
    many_editions: bool = False
    """Folders of this data set hold different problems (AIME by year), so ids begin with the name of
    the folder."""
    known_repeats: frozenset[str] = frozenset()
    """Ids of train problems that the publisher repeats in the test split; they are removed."""

    def published(self, split: str) -> str:
        """The publisher's name of a split."""
        return self.published_splits.get(split, split)
