"""Rows from files and from the hub's client, and errors that name file, line and key."""

import gzip
import json
import pathlib
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.raw_files import folder_rows

ROWS = [{"question": "1+1?", "answer": "#### 2"}, {"question": "2+2?", "answer": "#### 4"}]


def row_of(**fields: object) -> RawRow:
    return RawRow(fields=fields, where="set.jsonl:7", index=6)


def write_lines(path: pathlib.Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_formats_agree(tmp_path: pathlib.Path):
    """JSON lines, gzipped JSON lines and parquet give the same rows."""
    write_lines(tmp_path / "plain.jsonl", ROWS)
    (tmp_path / "packed.jsonl.gz").write_bytes(
        gzip.compress((tmp_path / "plain.jsonl").read_bytes())
    )
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "table.parquet")
    read = [
        [row.fields for row in folder_rows(tmp_path, [name])]
        for name in ("plain.jsonl", "packed.jsonl.gz", "table.parquet")
    ]
    assert read == [ROWS, ROWS, ROWS]


def test_a_json_file_is_a_row_known_by_its_name(tmp_path: pathlib.Path):
    """Each file is one row; the default id is its name."""
    (tmp_path / "b.json").write_text(json.dumps(ROWS[0], indent=2))
    (tmp_path / "a.json").write_text(json.dumps({"id": "own"}))
    rows = folder_rows(tmp_path, ["*.json"])
    assert [row.fields for row in rows] == [{"id": "own"}, {"id": "b", **ROWS[0]}]
    assert rows[1].where == str(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("content", "complaint"), [("[1]", "JSON object, got list"), ("{", "not JSON")]
)
def test_a_json_file_that_is_no_row_is_named(tmp_path: pathlib.Path, content: str, complaint: str):
    """The error names file and reason."""
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(BadInputError, match=rf"a\.json: .*{complaint}"):
        folder_rows(tmp_path, ["*.json"])


def test_first_matching_pattern_wins(tmp_path: pathlib.Path):
    """Two copies of one split in a folder are not read twice."""
    write_lines(tmp_path / "test.jsonl", ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "test-0.parquet")
    rows = folder_rows(tmp_path, ["test.jsonl", "test-*.parquet"])
    assert [row.where for row in rows] == [f"{tmp_path}/test.jsonl:{line}" for line in (1, 2)]


def test_parts_are_numbered_through(tmp_path: pathlib.Path):
    """The index runs over all files of a split: 2 rows and 2 rows give 0, 1, 2, 3."""
    for part in ("test-0.jsonl", "test-1.jsonl"):
        write_lines(tmp_path / part, ROWS)
    assert [row.index for row in folder_rows(tmp_path, ["test-*.jsonl"])] == [0, 1, 2, 3]


def test_no_file_is_none_but_no_row_is_empty(tmp_path: pathlib.Path):
    """A missing split is None, an empty one an empty list."""
    (tmp_path / "test.jsonl").touch()
    assert folder_rows(tmp_path, ["train.jsonl"]) is None
    assert folder_rows(tmp_path, ["test.jsonl"]) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.parquet", b"PAR1 and no more"),
        ("cut.jsonl", b'{"question": "1+1?"}\n{"quest'),
        # The bytes name the test, and workers must agree on its name: no time in them.
        ("cut.jsonl.gz", gzip.compress(b'{"question": "1+1?"}\n', mtime=0)[:-9]),
    ],
)
def test_broken_file_is_named(tmp_path: pathlib.Path, name: str, content: bytes):
    """A truncated file of any format is refused by name."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=name):
        folder_rows(tmp_path, [name])


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({}, lambda row: row.text("answer")),
        ({"answer": None}, lambda row: row.text("answer")),
        ({"answer": ["4"]}, lambda row: row.text("answer")),
        ({"answer": True}, lambda row: row.text("answer")),
        ({"answer": "12"}, lambda row: row.whole("answer")),
        ({"answer": "assert f()"}, lambda row: row.texts("answer")),
        ({"answer": []}, lambda row: row.texts("answer")),
        ({"answer": [1]}, lambda row: row.texts("answer")),
    ],
)
def test_unusable_value_names_place_and_key(fields: dict, read):
    """The error of an invalid value has file, line and key."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: .*'answer'"):
        read(row_of(**fields))


def test_hub_client_reads_every_split(tmp_path: pathlib.Path):
    """The hub client, here on a local copy of a repository, gives the rows of each split."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for split in ("train", "test"):
        pq.write_table(pa.Table.from_pylist(ROWS), repository / f"{split}-0.parquet")
    program = (
        "import json, sys\n"
        "from pipeline_lib.problems.raw_files import hub_rows\n"
        "splits = hub_rows(sys.argv[1], config=None)\n"
        "print(json.dumps({s: [[r.where, r.fields] for r in rows] for s, rows in splits.items()}))\n"
    )
    # The client reads its settings once, when it is imported: hence another process.
    done = subprocess.run(
        [sys.executable, "-c", program, str(repository)],
        env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")},
        cwd=pathlib.Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    splits = json.loads(done.stdout)
    assert set(splits) == {"train", "test"}
    assert [fields for _, fields in splits["train"]] == ROWS
    assert splits["test"][1] == [f"{repository} test row 2", ROWS[1]]
