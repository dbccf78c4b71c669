"""Rows of a published data set, from a folder or a hub."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.store.files import digest_file, digest_json, numbered_json_lines, read_json


def source_identity(source: str | None) -> dict[str, str]:
    """Digest of a folder's files, as an input of a stage key; of a hub id, the id; empty for None."""
    if source is None:
        return {}
    root = pathlib.Path(source).expanduser()
    files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else []
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
    """The one row of a JSON file; its id defaults to the file's name."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise BadInputError(f"{file}: expected a JSON object, got {type(value).__name__}")
    return {"id": file.stem, **value}


def _parquet_rows(file: pathlib.Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(f"{file}: not a parquet file ({reason_of(error)})") from error
    return rows


def hub_rows(hub_id: str, *, config: str | None) -> dict[str, list[RawRow]]:
    """Every split of a data set on the hub, or in its cache; BadInputError if it cannot be fetched."""
    import datasets  # noqa: PLC0415 - it takes a second, and a folder does not need it

    try:
        splits = datasets.load_dataset(hub_id, config)
    except Exception as error:  # the hub client raises a dozen kinds of errors
        raise BadInputError(
            f"{hub_id}: neither a folder nor a data set of the hub that can be fetched "
            f"({type(error).__name__}: {reason_of(error)}); without a network, download it "
            "elsewhere and set prepare.source to that folder"
        ) from error
    return {
        str(split): [
            RawRow(fields=fields, where=f"{hub_id} {split} row {index + 1}", index=index)
            for index, fields in enumerate(rows)
        ]
        for split, rows in splits.items()
    }
