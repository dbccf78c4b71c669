"""Rows of a data set as its publisher wrote them, from a folder or a hub, each with its place.

Nothing here knows what a row means; it only makes sure that a complaint can name file, line and key.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib.errors import BadInputError
from pipeline_lib.storage.files import numbered_json_lines, read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row, where it stands, and its number (from 0) within its split."""

    fields: Mapping[str, Any]
    where: str
    """File and line, or hub id and row."""
    index: int

    def text(self, *names: str) -> str:
        """The text under the first of ``names`` that the row has.

        Raises:
            BadInputError: there is none, or it is neither text nor a number.
        """
        value = self._value(names)
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
        """Whether there is a value under ``name``."""
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


def folder_rows(folder: pathlib.Path, patterns: Sequence[str]) -> list[RawRow] | None:
    """Rows of the files that the first matching pattern finds, or None if no pattern matches.

    Raises:
        BadInputError: a file that cannot be read; the message names file and line.
    """
    for pattern in patterns:
        files = sorted(folder.glob(pattern))
        if files:
            placed = (item for file in files for item in _file_rows(file))
            return [
                RawRow(fields=fields, where=where, index=index)
                for index, (where, fields) in enumerate(placed)
            ]
    return None


def _file_rows(file: pathlib.Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if file.suffix == ".parquet":
        for number, fields in enumerate(_parquet_rows(file), start=1):
            yield f"{file} row {number}", fields
    elif file.suffix == ".json":
        yield str(file), _whole_file(file)
    else:
        for number, fields in numbered_json_lines(file):
            yield f"{file}:{number}", fields


def _whole_file(file: pathlib.Path) -> dict[str, Any]:
    """A file that is one row; it is known by its name where it has no id."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise BadInputError(f"{file}: expected a JSON object, got {type(value).__name__}")
    return {"id": file.stem, **value}


def _parquet_rows(file: pathlib.Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(f"{file}: not a parquet file ({_one_line(error)})") from error
    return rows


def hub_rows(hub_id: str, *, config: str | None) -> dict[str, list[RawRow]]:
    """Every split of a data set on the hub (or in the hub's cache).

    Raises:
        BadInputError: it cannot be fetched; the message says what to do without a network.
    """
    import datasets  # noqa: PLC0415 - it takes a second, and a folder does not need it

    try:
        splits = datasets.load_dataset(hub_id, config)
    except Exception as error:  # the hub client raises a dozen kinds of errors
        raise BadInputError(
            f"{hub_id}: neither a folder nor a data set of the hub that can be fetched "
            f"({type(error).__name__}: {_one_line(error)}); without a network, download it "
            "elsewhere and set prepare.source to that folder"
        ) from error
    return {
        str(split): [
            RawRow(fields=fields, where=f"{hub_id} {split} row {index + 1}", index=index)
            for index, fields in enumerate(rows)
        ]
        for split, rows in splits.items()
    }


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
