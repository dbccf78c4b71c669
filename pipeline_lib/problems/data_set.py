"""A data set that is loaded: the layout of its files, and the parser of its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline_lib.problems.raw_row import RawRow
from pipeline_lib.records import Problem

BY_SPLIT = ("{split}.jsonl", "{split}.jsonl.gz", "{split}-*.parquet", "data/{split}-*.parquet")
"""Usual patterns of a split's files: JSON lines, or a hub's parquet export."""


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
