"""Rows of one's own data in every format that `prepare.dataset=lines` reads."""

import csv
import gzip
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, object]
ROWS: Sequence[Row] = [
    {
        "question": f"Ines packs {n} boxes, each with {n + 1} pens. How many pens?",
        "answer": f"{n}*{n + 1} = <<{n}*{n + 1}={n * (n + 1)}>>{n * (n + 1)}\n#### {n * (n + 1):,}",
        "level": n % 3,
    }
    for n in range(60)
]
"""60 rows as of GSM8K, with a further column."""


def json_lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_json_lines(path: pathlib.Path, rows: Sequence[Row]) -> None:
    path.write_text(json_lines(rows), "utf-8")


def write_gzip(path: pathlib.Path, rows: Sequence[Row]) -> None:
    path.write_bytes(gzip.compress(json_lines(rows).encode()))


def write_csv(path: pathlib.Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: pathlib.Path, rows: Sequence[Row]) -> None:
    pq.write_table(pa.Table.from_pylist([*map(dict, rows)]), path)


def save(path: pathlib.Path, rows: Sequence[Row]) -> None:
    datasets.disable_progress_bars()
    datasets.Dataset.from_list([*map(dict, rows)]).save_to_disk(str(path))


WRITERS: Mapping[str, Callable[[pathlib.Path, Sequence[Row]], None]] = {
    "rows.jsonl": write_json_lines,
    "rows.jsonl.gz": write_gzip,
    "rows.csv": write_csv,
    "rows.parquet": write_parquet,
    "saved": save,
}
