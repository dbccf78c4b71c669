"""A data set that is loaded: the layout of its files, the parser of its rows, and its rows as published."""

import csv
import datetime as dt
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, errors_at, first_fault
from pipeline_lib.kinds.kind import Name
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_file, digest_json, numbered_json_lines, read_checked

BY_SPLIT = (
    *("{split}.jsonl", "{split}.jsonl.gz", "{split}.csv", "{split}.parquet"),
    *("{split}-*.parquet", "data/{split}-*.parquet"),
)
"""Usual patterns of a split's files; the last two are a hub's parquet export."""
T = TypeVar("T")
_MAX_CELL = 256 << 20
_TEXT: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row, its place, and its number (from 0) within its split. Errors name file, line and key."""

    fields: Mapping[str, Any]
    where: str
    """File and line, or hub id and row."""
    index: int

    def text(self, *names: str) -> str:
        """The text under the first of ``names``; BadInputError if it is missing, or neither text nor a finite number."""
        return self.read(_TEXT, *names)

    def read(self, form: TypeAdapter[T], *names: str) -> T:
        """The value under the first of ``names``; BadInputError if it is missing, or not of this form."""
        name = next(filter(self.has, names), None)
        if name is None:
            raise self.missing(names)
        try:
            return form.validate_python(self.fields[name])
        except ValidationError as error:
            raise self.error(name, first_fault(error)) from error

    def missing(self, names: Sequence[str]) -> BadInputError:
        """The error of a row with a value under none of ``names``."""
        empty = next((name for name in names if name in self.fields), None)
        if empty is not None:
            return self.error(empty, "it is empty")
        complaint = f"missing; the row has {', '.join(sorted(self.fields))}"
        return self.error(" or ".join(names), complaint)

    def has(self, name: str) -> bool:
        """True if there is a value under ``name``; a blank text is none."""
        value = self.fields.get(name)
        return bool(value.strip()) if isinstance(value, str) else value is not None

    def error(self, key: str, complaint: str) -> BadInputError:
        """The error of a value under ``key`` that cannot be used."""
        return BadInputError(f"{self.where}: {key!r}: {complaint}; correct or remove the row")


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
    hub_id: str | None = None
    """Hub id of the publisher, which is loaded where no source is given."""
    hub_config: str | None = None
    checked: Callable[[Iterable[RawRow]], Iterable[RawRow]] = lambda rows: rows
    """The rows of a split; BadInputError if none of them can be parsed."""
    is_in: Callable[[RawRow, str], bool] | None = None
    """True if a row belongs to a split, for files that hold several splits."""
    day_of: Callable[[RawRow], dt.date] | None = None
    """The day of a row; None: rows have none."""
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

    def of_days(self, window: str) -> "DataSet":
        """The rows of the days ``FIRST..LAST``; BadInputError: that is no window, or rows have no days."""
        day_of = self.day_of
        try:
            first, last = map(dt.date.fromisoformat, window.split(".."))
        except ValueError:
            first, last = dt.date.max, dt.date.min
        if day_of is None or first > last:
            example = "livecodebench@2024-08-01..2025-01-31"
            raise BadInputError(f"days @{window}: give two, the first one first, as in {example}")
        return replace(self, is_in=lambda row, _split: first <= day_of(row) <= last)


def source_identity(source: str | None) -> dict[str, str]:
    """Digest of a file or of a folder's files, as an input of a stage key; of a hub id, the id; empty for None."""
    if source is None:
        return {}
    root = pathlib.Path(source).expanduser()
    files = sorted(path for path in (root, *root.rglob("*")) if path.is_file())
    digests = {str(path.relative_to(root)): digest_file(path) for path in files}
    return {"folder": digest_json(digests) if digests else source}


def folder_rows(folder: pathlib.Path, patterns: Sequence[str]) -> Iterator[RawRow] | None:
    """Rows of the files that the first matching pattern finds, read one by one, or None if no pattern matches.

    Raises:
        BadInputError: a file that cannot be read; the message names file and line.
    """
    found = next(filter(None, (sorted(folder.glob(pattern)) for pattern in patterns)), None)
    return None if found is None else file_rows(*found)


def file_rows(*files: pathlib.Path) -> Iterator[RawRow]:
    """The rows of files one by one; errors as of `folder_rows`."""
    placed = (item for file in files for item in _placed_rows(file))
    return (
        RawRow(fields=fields, where=where, index=index)
        for index, (where, fields) in enumerate(placed)
    )


def _placed_rows(file: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    numbered: Iterable[tuple[int, Mapping[str, Any]]]
    if file.name.endswith((".jsonl", ".jsonl.gz")):
        numbered = numbered_json_lines(file)
    elif file.suffix == ".csv":
        numbered = _csv_rows(file)
    elif file.suffix == ".parquet":
        numbered = enumerate(_parquet_rows(file), start=1)
    elif file.suffix == ".json":
        # One row; its id defaults to the file's name.
        fields = read_checked(file, dict[str, Any], remedy="write it again as an object")
        numbered = [(1, {"id": file.stem, **fields})]
    else:
        raise BadInputError(f"{file}: is no .jsonl, .jsonl.gz, .csv or .parquet file; convert it")
    return ((f"{file}:{number}", fields) for number, fields in numbered)


def _csv_rows(file: pathlib.Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """The rows by their last lines; an empty cell is None."""
    csv.field_size_limit(_MAX_CELL)
    rows = csv.DictReader(_text_lines(file), strict=True)
    try:
        for fields in rows:
            yield rows.line_num, _filled_cells(fields, rows.fieldnames or ())
    except csv.Error as error:
        raise BadInputError(
            f"{file}:{rows.reader.line_num}: not CSV ({error}); name each column once, and quote cells with commas"
        ) from error


def _filled_cells(fields: dict[Any, Any], names: Sequence[str]) -> dict[str, str | None]:
    # The reader's key of further cells, and its value for missing ones, are None.
    if None in fields or None in fields.values():
        raise csv.Error(f"the row has not {len(names)} cells, as the header")
    if "" in names or len(fields) < len(names):
        raise csv.Error("two columns have one name, or one has none")
    return {name: cell or None for name, cell in fields.items()}


def _text_lines(file: pathlib.Path) -> Iterator[str]:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise BadInputError(f"{file}:{number}: not UTF-8; save it as UTF-8") from error


def _parquet_rows(file: pathlib.Path) -> list[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415 - every command looks up the names of data sets
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    wrong = (pa.ArrowException, OSError)
    with errors_at(file, *wrong, fault="not a parquet file", remedy="write it again"):
        rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows


def is_saved(folder: pathlib.Path) -> bool:
    """True for a folder that ``datasets`` saved, with or without splits."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def hub_rows(source: str, *, config: str | None) -> dict[str, list[RawRow]]:
    """Every split of a data set on the hub, in its cache, or in a folder that ``datasets`` saved.

    "" is the name of a single one without splits. BadInputError: it cannot be fetched or read.
    """
    import datasets  # noqa: PLC0415 - it takes a second, and other folders do not need it

    fault = "neither a folder nor a data set of the hub that can be fetched"
    remedy = "without a network, download it elsewhere and give that folder as the source"
    # The hub's client raises a dozen kinds of errors.
    with errors_at(source, Exception, fault=fault, remedy=remedy):
        if is_saved(pathlib.Path(source)):
            found = datasets.load_from_disk(source)
        else:
            found = datasets.load_dataset(source, config)
    splits = {"": found} if isinstance(found, datasets.Dataset) else found
    return {
        str(split): [
            RawRow(fields=fields, where=f"{source} {split} row {index + 1}", index=index)
            for index, fields in enumerate(rows)
        ]
        for split, rows in splits.items()
    }
