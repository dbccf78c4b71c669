"""A full disk and deeply nested JSON: the error names the file, and nothing partial is left."""

import errno
import os
import pathlib
import resource
import signal

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import (
    atomic_file,
    numbered_json_lines,
    read_json,
    write_json,
    write_json_lines,
    write_text,
)


@pytest.fixture
def full_disk():
    """Limit files of this process to 4,096 bytes: further writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_text(path, "x" * 9000),
        lambda path: write_json(path, list(range(9000))),
        lambda path: write_json_lines(path, ({"n": n} for n in range(9000))),
    ],
    ids=["text", "json", "lines"],
)
def test_what_does_not_fit_names_its_file(full_disk, tmp_path, write):
    """The earlier file is unchanged, no temporary file is left, and the error names the file."""
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(OSError, match="too large") as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_that_names_a_file_keeps_it(tmp_path):
    """An error of another file within the block keeps its own file name."""
    other = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "elsewhere")
    with pytest.raises(OSError, match="No space") as caught, atomic_file(tmp_path / "out"):
        raise other
    assert caught.value.filename == "elsewhere"


HOSTILE_JSON = {
    "lists": b"[" * 200_000,
    "closed": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"a":' * 100_000,
    "digits": b'{"a": ' + b"9" * 9000 + b"}",
    "noise": bytes(range(256)),
    "empty": b"",
}


@pytest.mark.parametrize("what", HOSTILE_JSON)
def test_json_that_cannot_be_read_is_bad_input(what, tmp_path):
    """As a file and as a line: the place is named, and the content is not quoted."""
    path = tmp_path / "file.json"
    path.write_bytes(HOSTILE_JSON[what])
    with pytest.raises(BadInputError, match=r"file\.json: not JSON") as caught:
        read_json(path)
    assert len(str(caught.value)) < 1000
    path.write_bytes(b'{"a": 1}\n' + (HOSTILE_JSON[what] or b"x").replace(b"\n", b" "))
    with pytest.raises(BadInputError, match=r"file\.json:2: not a JSON object") as caught:
        list(numbered_json_lines(path))
    assert len(str(caught.value)) < 1000


def test_what_is_no_file_is_bad_input(tmp_path):
    """A folder and an invalid name are bad input."""
    for path in (tmp_path, tmp_path / ("x" * 300)):
        with pytest.raises(BadInputError, match="cannot be read"):
            read_json(pathlib.Path(path))


def test_a_failing_disk_is_not_bad_input(tmp_path, monkeypatch):
    """The system's error passes, with its file: the command ends with exit code 1, not 2."""

    def fail(*_: object, **__: object) -> str:
        raise OSError(errno.EIO, "Input/output error", str(tmp_path / "file"))

    monkeypatch.setattr(pathlib.Path, "read_text", fail)
    with pytest.raises(OSError, match="Input/output error"):
        read_json(tmp_path / "file")
