"""A data set that is loaded: the layout of its files, the parser of its rows, and its rows as published."""

import csv
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_file, digest_json, numbered_json_lines, read_json

BY_SPLIT = (
    *("{split}.jsonl", "{split}.jsonl.gz", "{split}.csv", "{split}.parquet"),
    *("{split}-*.parquet", "data/{split}-*.parquet"),
)
"""Usual patterns of a split's files; the last two are a hub's parquet export."""
_MAX_CELL = 256 << 20
_SAVED = ("dataset_dict.json", "state.json")
"""Files of a folder that `datasets` saved, with and without splits."""
_Placed = tuple[str, Mapping[str, Any]]
"""A place, and the fields of the row there."""


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
        raise self.missing(names)

    def missing(self, names: Sequence[str]) -> BadInputError:
        """The error of a row with a value under none of ``names``."""
        if any(name in self.fields for name in names):
            return self._refused(names, "it is empty")
        return self._refused(names, f"missing; the row has {', '.join(sorted(self.fields))}")

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
    hub_id: str | None = None
    """Hub id of the publisher, which is loaded where no source is given."""
    hub_config: str | None = None
    check: Callable[[Sequence[RawRow]], None] = lambda _rows: None
    """Raises BadInputError if no row of a split can be parsed."""
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


def source_identity(source: str | None) -> dict[str, str]:
    """Digest of a file or of a folder's files, as an input of a stage key; of a hub id, the id; empty for None."""
    if source is None:
        return {}
    root = pathlib.Path(source).expanduser()
    files = sorted(path for path in (root, *root.rglob("*")) if path.is_file())
    digests = {str(path.relative_to(root)): digest_file(path) for path in files}
    return {"folder": digest_json(digests) if digests else source}


def folder_rows(folder: pathlib.Path, patterns: Sequence[str]) -> list[RawRow] | None:
    """Rows of the files that the first matching pattern finds, or None if no pattern matches.

    Raises:
        BadInputError: a file that cannot be read; the message names file and line.
    """
    for pattern in patterns:
        files = sorted(folder.glob(pattern))
        if files:
            return file_rows(files)
    return None


def file_rows(files: Iterable[pathlib.Path]) -> list[RawRow]:
    """The rows of ``files``, numbered through; BadInputError as of `folder_rows`."""
    placed = (item for file in files for item in _file_rows(file))
    return [
        RawRow(fields=fields, where=where, index=index)
        for index, (where, fields) in enumerate(placed)
    ]


def _file_rows(file: pathlib.Path) -> Iterator[_Placed]:
    read = next((read for end, read in _READERS.items() if file.name.endswith(end)), None)
    if read is None:
        raise BadInputError(f"{file}: is no .jsonl, .jsonl.gz, .csv or .parquet file; convert it")
    return read(file)


def _json_row(file: pathlib.Path) -> Iterator[_Placed]:
    """The object of the file; its id defaults to the file's name."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise BadInputError(f"{file}: expected a JSON object, got {type(value).__name__}")
    yield str(file), {"id": file.stem, **value}


def _json_lines(file: pathlib.Path) -> Iterator[_Placed]:
    return ((f"{file}:{number}", fields) for number, fields in numbered_json_lines(file))


def _csv_rows(file: pathlib.Path) -> Iterator[_Placed]:
    """The rows below the header by their first lines; an empty cell is None."""
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(_text_lines(file), strict=True)
    header: list[str] = []
    begin = 1
    try:
        for cells in reader:
            if cells and not header:
                header = cells
                if "" in header or len(set(header)) < len(header):
                    raise BadInputError(
                        f"{file}:{begin}: two columns have one name, or one has none; rename them"
                    )
            elif cells and len(cells) != len(header):
                raise BadInputError(
                    f"{file}:{begin}: {len(cells)} cells, and the header has {len(header)}; quote cells that hold "
                    "commas or quotes"
                )
            elif cells:
                filled = (cell or None for cell in cells)
                yield f"{file}:{begin}", dict(zip(header, filled, strict=True))
            begin = reader.line_num + 1
    except csv.Error as error:
        raise BadInputError(
            f"{file}:{begin}: not CSV ({error}); quote cells that hold commas or quotes"
        ) from error


def _text_lines(file: pathlib.Path) -> Iterator[str]:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise BadInputError(
                    f"{file}:{number}: not UTF-8 ({error.reason}); save it as UTF-8"
                ) from error


def _parquet_rows(file: pathlib.Path) -> Iterator[_Placed]:
    import pyarrow as pa  # noqa: PLC0415 - every command looks up the names of data sets
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    try:
        rows = pq.read_table(file).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(
            f"{file}: not a parquet file ({reason_of(error)}); write it again"
        ) from error
    for number, fields in enumerate(rows, start=1):
        yield f"{file} row {number}", fields


_READERS: Mapping[str, Callable[[pathlib.Path], Iterator[_Placed]]] = {
    ".csv": _csv_rows,
    ".json": _json_row,
    ".jsonl": _json_lines,
    ".jsonl.gz": _json_lines,
    ".parquet": _parquet_rows,
}


def is_saved(folder: pathlib.Path) -> bool:
    """True for a folder that ``datasets`` saved."""
    return any((folder / name).is_file() for name in _SAVED)


def saved_rows(folder: pathlib.Path) -> dict[str, list[RawRow]]:
    """Every split of a folder that ``datasets`` saved; "" is the name of a single one without splits."""
    import datasets  # noqa: PLC0415 - it takes a second

    try:
        saved = datasets.load_from_disk(str(folder))
    except Exception as error:  # files from outside can be wrong in any way
        raise BadInputError(
            f"{folder}: not a data set that can be read ({reason_of(error)}); save it again"
        ) from error
    return _numbered({"": saved} if isinstance(saved, datasets.Dataset) else saved, str(folder))


def hub_rows(hub_id: str, *, config: str | None) -> dict[str, list[RawRow]]:
    """Every split of a data set on the hub, or in its cache; BadInputError if it cannot be fetched."""
    import datasets  # noqa: PLC0415 - it takes a second, and a folder does not need it

    try:
        splits = datasets.load_dataset(hub_id, config)
    except Exception as error:  # the hub client raises a dozen kinds of errors
        raise BadInputError(
            f"{hub_id}: neither a folder nor a data set of the hub that can be fetched "
            f"({type(error).__name__}: {reason_of(error)}); without a network, download it "
            "elsewhere and give that folder as the source"
        ) from error
    return _numbered(splits, hub_id)


def _numbered(
    splits: Mapping[str, Iterable[Mapping[str, Any]]], source: str
) -> dict[str, list[RawRow]]:
    return {
        str(split): [
            RawRow(
                fields=fields,
                where=" ".join((source, *split.split(), f"row {index + 1}")),
                index=index,
            )
            for index, fields in enumerate(rows)
        ]
        for split, rows in splits.items()
    }
