"""Atomic files, digests, and JSON lines with errors that name the line."""

import gzip
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import (
    atomic_file,
    check_output,
    digest_file,
    digest_json,
    is_temporary,
    numbered_json_lines,
    read_json,
    read_json_lines,
    write_json,
    write_json_lines,
    write_text,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


class DiskFullError(Exception):
    """Any failure while a file is written."""


def write_half(path: pathlib.Path) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("half of the ne")
        raise DiskFullError


def test_error_while_writing_leaves_the_old_file(tmp_path: pathlib.Path):
    """The earlier content stays, and no temporary file is left."""
    target = tmp_path / "figures.json"
    target.write_text("old")
    with pytest.raises(DiskFullError):
        write_half(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_new_content_appears_only_at_the_end(tmp_path: pathlib.Path):
    """While a file is being written its name has the old content; folders are made as needed."""
    target = tmp_path / "deep" / "figures.json"
    write_text(target, "old")
    with atomic_file(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
        assert is_temporary(temporary)
    assert target.read_text() == "new"
    assert not is_temporary(target)


def test_digest_is_sha256(tmp_path: pathlib.Path):
    """The digest of "abc" is the one that FIPS 180 gives as its example."""
    (tmp_path / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_file(tmp_path / "a") == known


@given(json_values)
def test_digest_of_json_ignores_key_order(value):
    """Two dictionaries that are equal have one digest."""
    assert digest_json({"a": value, "b": 1}) == digest_json({"b": 1, "a": value})
    assert digest_json({"a": value}) != digest_json({"a": [value]})


def test_text_of_any_kind_can_be_written(tmp_path: pathlib.Path):
    """A lone surrogate in model output does not cut a file short."""
    write_text(tmp_path / "a", "ok \ud800 é")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "ok \\ud800 é"


def test_json_round_trip_and_errors(tmp_path: pathlib.Path):
    """JSON is read back; an unreadable file is named."""
    write_json(tmp_path / "a.json", {"b": [1, None], "a": "é"})
    assert read_json(tmp_path / "a.json") == {"a": "é", "b": [1, None]}
    with pytest.raises(BadInputError, match=r"absent\.json: no such file"):
        read_json(tmp_path / "absent.json")
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(BadInputError, match=r"a\.json: not JSON"):
        read_json(tmp_path / "a.json")


@given(rows=st.lists(st.dictionaries(st.text(max_size=3), json_values, max_size=3), max_size=4))
def test_json_lines_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[dict]):
    """Rows with line ends, surrogates or any text inside come back one by one."""
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    write_json_lines(path, [*rows, {"text": "\ud800\n\u2028"}])
    assert list(read_json_lines(path)) == [*rows, {"text": "\ud800\n\u2028"}]


def test_marks_line_ends_and_gaps_are_accepted(tmp_path: pathlib.Path):
    """A byte-order mark, CRLF and empty lines are accepted; line numbers are those of the file."""
    content = b'\xef\xbb\xbf{"n": 1}\r\n\r\n{"n": 2}'
    (tmp_path / "rows.jsonl").write_bytes(content)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(content))
    expected = [(1, {"n": 1}), (3, {"n": 2})]
    assert list(numbered_json_lines(tmp_path / "rows.jsonl")) == expected
    assert list(numbered_json_lines(tmp_path / "rows.jsonl.gz")) == expected


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"n": 1}\n{"n": ', r"rows\.jsonl:2: not a JSON object .*seems to be truncated"),
        (b'{"n": 1, "n": 2}\n', r"rows\.jsonl:1: not a JSON object \(key 'n' twice\)"),
        ('{"n": 1}'.encode("utf-16"), r"rows\.jsonl:1: not a JSON object .*seems to be UTF-16"),
        (b'{"n": 1}\n{"n": \n', r"rows\.jsonl:2: not a JSON object \(.*\); correct or remove"),
        (b'{"n": 1}\n[1]\n', r"rows\.jsonl:2: expected a JSON object, got list"),
        (b"\xff\xfe\n", r"rows\.jsonl:1: not a JSON object"),
        (b"[" * 100_000 + b"\n", r"rows\.jsonl:1: not a JSON object"),
        (b'{"n": ' + b"1" * 5_000 + b"}\n", r"rows\.jsonl:1: not a JSON object"),
    ],
)
def test_bad_line_is_named(tmp_path: pathlib.Path, content: bytes, complaint: str):
    """The error has file and line number; a truncated last line is reported as such."""
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(BadInputError, match=complaint):
        list(read_json_lines(tmp_path / "rows.jsonl"))


@pytest.mark.parametrize(
    "content",
    # The bytes name the test, and workers must agree on its name: no time in them.
    [
        gzip.compress(b'{"n": 1}\n' * 50, mtime=0)[:-12],
        b"not gzip",
        b"\x1f\x8b\x08\x00" + b"x" * 30,
    ],
)
def test_broken_gzip_is_named(tmp_path: pathlib.Path, content: bytes):
    """A .gz file that is truncated or not compressed is bad input, not a crash."""
    (tmp_path / "rows.jsonl.gz").write_bytes(content)
    with pytest.raises(BadInputError, match=r"rows\.jsonl\.gz"):
        list(read_json_lines(tmp_path / "rows.jsonl.gz"))


def test_missing_json_lines_are_named(tmp_path: pathlib.Path):
    """A missing file is bad input."""
    with pytest.raises(BadInputError, match=r"rows\.jsonl: no such file"):
        list(read_json_lines(tmp_path / "rows.jsonl"))


def test_only_regular_files_are_replaced(tmp_path: pathlib.Path):
    """A pipe and a directory are refused as outputs, and no file is left next to them."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, complaint in [("pipe", "is a device or a pipe"), ("folder", "is a directory")]:
        with pytest.raises(BadInputError, match=complaint):
            write_text(tmp_path / name, "new")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_link_is_written_through(tmp_path: pathlib.Path):
    """The target of a symbolic link gets the new content; the link stays."""
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_sources_are_regular_files(tmp_path: pathlib.Path):
    """A pipe is refused before it is opened, and a directory is not reported as missing."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInputError, match="pipe: is a device or a pipe"):
        list(read_json_lines(tmp_path / "pipe"))
    with pytest.raises(BadInputError, match="is a directory"):
        list(read_json_lines(tmp_path))


def test_outputs_that_cannot_be_written(tmp_path: pathlib.Path):
    """Each is refused with its reason; a new file in new folders is accepted, and no folder is made."""
    source = tmp_path / "in.jsonl"
    source.write_text("{}\n")
    (tmp_path / "link.jsonl").symlink_to(source)
    for output, complaint in [
        (source, "is the input itself"),
        (tmp_path / "link.jsonl", "is the input itself"),
        (tmp_path, "is a directory"),
        (source / "deep" / "out.jsonl", r"in\.jsonl is no folder"),
        (tmp_path / "out.jsonl.gz", "is not compressed"),
    ]:
        with pytest.raises(BadInputError, match=complaint):
            check_output(output, source=source)
    check_output(tmp_path / "deep" / "er" / "out.jsonl", source=source)
    assert not (tmp_path / "deep").exists()


def test_a_link_to_a_pipe_is_refused_in_one_line():
    """/dev/stdout of a pipeline leads to a pipe, whose resolved name does not exist."""
    reading, writing = os.pipe()
    try:
        with pytest.raises(BadInputError, match="is a device or a pipe"):
            check_output(pathlib.Path(f"/dev/fd/{writing}"))
    finally:
        os.close(reading)
        os.close(writing)
