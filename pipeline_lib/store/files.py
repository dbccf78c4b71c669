"""Atomic writes, digests, and JSON and JSON lines read with errors that name file and line."""

import errno
import gzip
import hashlib
import json
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, CorruptArtifactError, first_fault, reason_of

_Content = TypeVar("_Content")
_CHUNK_BYTES = 1 << 20
_MAX_LINE_BYTES = 256 << 20
_DISK_FAILS = {errno.EIO, errno.ESTALE}
"""Errors of reading that are no fault of the file."""


def digest_file(path: pathlib.Path) -> str:
    """Sha256 of a file's content, as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_json(value: Any) -> str:
    """Sha256 of a JSON value in canonical form (sorted keys, no spaces), as hex."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def atomic_file(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a temporary name next to ``path``; on success it is synced and renamed to ``path``.

    On an error the temporary file is removed and an earlier file is unchanged. Of a symbolic link
    the target is replaced.

    Raises:
        BadInputError: ``path`` exists and is not a regular file.
    """
    target = path.resolve()
    _refuse_special(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with named_errors(path):
            yield temporary
            _sync(temporary)
            temporary.replace(target)
            _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def named_errors(path: pathlib.Path) -> Iterator[None]:
    """Add the name ``path`` to errors of the system that name no file, as errors of writing."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def check_output(path: pathlib.Path, *, source: pathlib.Path | None = None) -> None:
    """Refuse an output that cannot be written, before any work is done.

    Raises:
        BadInputError: ``path`` is ``source``, ends in .gz, is not a regular file, or is in a folder
            that cannot be written or created.
    """
    target = path.resolve()
    if source is not None and target == source.resolve():
        raise BadInputError(f"{path}: is the input itself; choose another --output")
    if path.suffix == ".gz":
        raise BadInputError(f"{path}: output is not compressed; leave out .gz")
    _refuse_special(path)
    folder = next(parent for parent in target.parents if parent.exists())
    if not folder.is_dir():
        raise BadInputError(f"{path}: {folder} is no folder; choose another --output")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(f"{path}: {folder} is not writable; choose another --output")


def _refuse_special(path: pathlib.Path) -> None:
    if path.is_dir():
        raise BadInputError(f"{path}: is a directory; name a file")
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path}: is a device or a pipe; name a regular file")


def is_temporary(path: pathlib.Path) -> bool:
    """True for the name of a temporary file of :func:`atomic_file`, left by a killed process."""
    return path.name.startswith(".") and path.name.endswith(".part")


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: pathlib.Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically. Lone surrogates become ``?`` escapes, not errors."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write ``value`` as readable JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: pathlib.Path) -> Any:
    """Read a JSON file.

    Raises:
        BadInputError: it is missing, unreadable or not JSON; the message names it.
        OSError: the disk fails.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadInputError(f"{path}: no such file") from error
    except OSError as error:
        if error.errno in _DISK_FAILS:
            raise
        raise BadInputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        reason = reason_of(error)
        raise BadInputError(f"{path}: not JSON ({reason}); write it again or remove it") from error


def read_checked(path: pathlib.Path, kind: type[_Content], *, remedy: str) -> _Content:
    """Read a JSON file as ``kind``, a dataclass or a model of pydantic's.

    Raises:
        BadInputError: it is missing, unreadable or not JSON.
        CorruptArtifactError: it has another content; the message names file, key and ``remedy``.
    """
    content = read_json(path)
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise CorruptArtifactError(f"{path}: {first_fault(error)}; {remedy}") from error


def write_json_lines(path: pathlib.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line, atomically."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        # ASCII escapes keep lone surrogates of model output representable.
        stream.writelines(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)


def read_json_lines(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file; see :func:`numbered_json_lines`."""
    for _, value in numbered_json_lines(path):
        yield value


def numbered_json_lines(path: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number (from 1) and object of each line of a JSON-lines file, plain or ``.gz``.

    A byte-order mark and CRLF are accepted, empty lines are skipped.

    Raises:
        BadInputError: a missing file, or a line that is no JSON object, with its number.
    """
    _refuse_special(path)  # files are read twice, which a pipe does not allow
    if not path.exists():
        raise BadInputError(f"{path}: no such file")
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    with opener(path, "rb") as stream:
        try:
            # Of a line that is too long, one byte more than the limit is read.
            lines = iter(lambda: stream.readline(_MAX_LINE_BYTES + 1), b"")
            for number, line in enumerate(lines, start=1):
                if len(line) > _MAX_LINE_BYTES:
                    raise BadInputError(f"{path}:{number}: more than {_MAX_LINE_BYTES} bytes")
                if line.strip():
                    yield number, _json_object(path, number, line)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadInputError(f"{path}: broken after line {number} ({error})") from error


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return value


def _json_object(path: pathlib.Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_distinct_keys)
    except (ValueError, RecursionError) as error:
        hint = (
            "correct or remove the line"
            if line.endswith(b"\n")
            else "the file seems to be truncated"
        )
        if isinstance(error, UnicodeDecodeError):
            hint = "save the file as UTF-8"
        if b"\0" in line:
            hint = "the file seems to be UTF-16, save it as UTF-8"
        reason = reason_of(error)
        raise BadInputError(f"{path}:{number}: not a JSON object ({reason}); {hint}") from error
    if not isinstance(value, dict):
        raise BadInputError(f"{path}:{number}: expected a JSON object, got {type(value).__name__}")
    return value
