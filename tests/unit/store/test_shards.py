"""Parquet shards: complete, checked, resumable, equal bytes for equal rows."""

import pathlib
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.store.shards import (
    finished_shard,
    read_shard,
    read_slice,
    read_table,
    seal_table,
    shard_manifest,
    shard_name,
    split,
    write_shard,
    write_table,
)

ROWS = [{"n": number, "text": f"row {number}", "score": None} for number in range(5)]


@given(items=st.lists(st.integers(), max_size=20), size=st.integers(1, 7))
def test_split_loses_nothing(items: list[int], size: int):
    """Shards put together are the items; all but the last are full, and none is empty."""
    pieces = split(items, size)
    assert [item for piece in pieces for item in piece] == items
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(pieces)


def test_table_round_trip(tmp_path: pathlib.Path):
    """5 rows in shards of 2 give 3 shards, and come back in order."""
    manifest = write_table(tmp_path, ROWS, kind="rows", key="k", shard_size=2)
    assert sorted(manifest.files) == [shard_name(index) for index in range(3)]
    assert manifest.counts == {"rows": 5}
    assert read_table(tmp_path) == ROWS


def test_empty_table_round_trip(tmp_path: pathlib.Path):
    """A table without rows is sealed and read like any other."""
    write_table(tmp_path, [], kind="rows", key="k")
    assert read_table(tmp_path) == []


def test_equal_rows_give_equal_digests(tmp_path: pathlib.Path):
    """A shard depends on neither time nor place."""
    digests = {
        write_table(tmp_path / name, ROWS, kind="rows", key=name).digest for name in ("a", "b")
    }
    assert len(digests) == 1


def test_lone_surrogates_are_stored_as_marks(tmp_path: pathlib.Path):
    """A lone surrogate is replaced, and the shard is written."""
    write_shard(tmp_path, 0, [{"text": "a\ud800b"}], kind="rows", key="k")
    assert read_shard(tmp_path, 0) == [{"text": "a?b"}]


def test_finished_shard_is_taken_up_for_its_key_only(tmp_path: pathlib.Path):
    """Only a shard of the same key is finished; one of another key or a missing one is not."""
    write_shard(tmp_path, 3, ROWS, kind="rows", key="k", counts={"tokens": 9})
    finished = finished_shard(tmp_path, 3, kind="rows", key="k")
    assert finished is not None
    assert finished.counts == {"rows": 5, "tokens": 9}
    assert finished_shard(tmp_path, 3, kind="rows", key="other") is None
    assert finished_shard(tmp_path, 4, kind="rows", key="k") is None


@pytest.mark.fault("shard damaged", "resumes")
def test_corrupt_shard_is_named_and_made_again(tmp_path: pathlib.Path):
    """Readers get an error with the file's name; for writers the shard is not finished."""
    write_table(tmp_path, ROWS, kind="rows", key="k", shard_size=2)
    target = tmp_path / shard_name(1)
    target.write_bytes(target.read_bytes()[:-1] + b"?")
    for read in (lambda: read_shard(tmp_path, 1), lambda: read_table(tmp_path)):
        with pytest.raises(CorruptArtifactError, match=r"part-00001\.parquet: sha256 differs"):
            read()
    assert finished_shard(tmp_path, 1, kind="rows", key="k") is None
    assert finished_shard(tmp_path, 0, kind="rows", key="k") is not None


@given(start=st.integers(0, 6), stop=st.integers(0, 6), shard_size=st.integers(1, 6))
def test_a_slice_is_that_of_the_list(start: int, stop: int, shard_size: int):
    """Rows of any range are those of the whole table, whatever its shards; beyond its end there are none."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_table(folder, ROWS, kind="rows", key="k", shard_size=shard_size)
        assert read_slice(folder, start, stop) == ROWS[start:stop]


def test_a_slice_reads_only_its_shards(tmp_path: pathlib.Path):
    """With the second of three shards damaged, the rows of the others are read, and its own are refused."""
    write_table(tmp_path, ROWS, kind="rows", key="k", shard_size=2)
    target = tmp_path / shard_name(1)
    target.write_bytes(target.read_bytes()[:-1] + b"?")
    assert read_slice(tmp_path, 0, 2) == ROWS[:2]
    assert read_slice(tmp_path, 4, 5) == ROWS[4:]
    with pytest.raises(CorruptArtifactError, match=r"part-00001\.parquet: sha256 differs"):
        read_slice(tmp_path, 1, 3)


def test_sealing_removes_shards_beyond_the_table(tmp_path: pathlib.Path):
    """A table that shrinks from 3 shards to 2 holds 2, and no rows of the third."""
    write_table(tmp_path, ROWS, kind="rows", key="k", shard_size=2)
    manifest = seal_table(tmp_path, 2, kind="rows", key="k")
    assert manifest.counts == {"rows": 4}
    assert read_table(tmp_path) == ROWS[:4]
    assert not (tmp_path / shard_name(2)).exists()


def test_counts_are_summed_over_shards(tmp_path: pathlib.Path):
    """2 and 3 rows with 10 and 5 tokens make 5 rows with 15 tokens."""
    write_shard(tmp_path, 0, ROWS[:2], kind="rows", key="k", counts={"tokens": 10})
    write_shard(tmp_path, 1, ROWS[2:], kind="rows", key="k", counts={"tokens": 5})
    assert seal_table(tmp_path, 2, kind="rows", key="k").counts == {"rows": 5, "tokens": 15}
    assert shard_manifest(tmp_path, 1).counts == {"rows": 3, "tokens": 5}
