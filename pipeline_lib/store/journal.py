"""Finished pieces of one output file, kept while it is made, so that a killed command continues.

A journal is a JSON-lines file: a line with the key of the work, then one line per finished piece, each
synced when it is added. A line that a kill cut off is dropped.
"""

import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import named_errors, write_text

Piece = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Journal:
    """The journal of one output file."""

    path: pathlib.Path
    pieces: dict[str, Piece]
    """Finished pieces by name."""

    def add(self, name: str, piece: Piece) -> None:
        """Keep a finished piece; it is on disk when this returns."""
        self.pieces[name] = piece
        line = json.dumps({"name": name, "piece": piece}) + "\n"
        with named_errors(self.path), self.path.open("a", encoding="utf-8") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())

    def remove(self) -> None:
        """Remove the file, once the output is complete."""
        self.path.unlink(missing_ok=True)


def open_journal(path: pathlib.Path, *, key: str, replaces_other: bool = False) -> Journal:
    """The journal at ``path``, with the pieces of an earlier command that had the same ``key``.

    With ``replaces_other`` a journal of other work is dropped, not refused.

    Raises:
        BadInputError: the journal there is of other work, or damaged.
    """
    pieces = _finished(path, key, replaces_other=replaces_other) if path.exists() else {}
    lines = [{"key": key}, *({"name": name, "piece": piece} for name, piece in pieces.items())]
    write_text(path, "".join(f"{json.dumps(line)}\n" for line in lines))
    return Journal(path=path, pieces=pieces)


def _finished(path: pathlib.Path, key: str, *, replaces_other: bool) -> dict[str, Piece]:
    lines = _complete_lines(path)
    if not lines or lines[0].get("key") != key:
        if replaces_other:
            return {}
        raise BadInputError(
            f"{path}: is of another input, model, setting or version; remove it, or choose another --output"
        )
    return _pieces(lines)


def read_pieces(path: pathlib.Path) -> dict[str, Piece]:
    """The finished pieces of a journal that another process may be writing; none without a file."""
    return _pieces(_complete_lines(path)) if path.exists() else {}


def count_pieces(path: pathlib.Path) -> int:
    """As many as `read_pieces` finds, without parsing them."""
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def _pieces(lines: list[dict[str, Any]]) -> dict[str, Piece]:
    return {line["name"]: line["piece"] for line in lines[1:]}


def _complete_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    *complete, _cut_off = path.read_text("utf-8").split("\n")
    try:
        lines = [json.loads(line) for line in complete]
        if all(isinstance(line, dict) for line in lines):
            return lines
    except ValueError:
        pass
    raise BadInputError(f"{path}: is damaged; remove it to start again, or choose another --output")
