"""Writes data folders in the format of TRM and HRM incrementally, in constant memory.

Rows are appended to the .npy files; the headers get the number of rows at the end.
Legend: E examples added at once, L tokens.
"""

import json
import pathlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, TextIO

import numpy as np
import numpy.typing as npt

from pipeline_lib.store.files import write_json
from pipeline_lib.systems.prr.data.dataset_files import (
    BLANK,
    IDENTIFIERS_NAME,
    INDEX_FIELDS,
    METADATA_NAME,
    SET_NAME,
    TEST_PUZZLES_NAME,
    TOKEN_FIELDS,
    PuzzleSet,
    SetMetadata,
)

_BUFFER_BYTES = 1 << 20


class _TokenFile:
    """An append-only .npy file of uint8 rows."""

    def __init__(self, stream: BinaryIO, *, seq_len: int) -> None:
        self._stream = stream
        self._seq_len = seq_len
        self.num_rows = 0
        self._write_header()
        self._header_bytes = stream.tell()

    def append(self, rows_EL: npt.NDArray[np.uint8]) -> None:
        self._stream.write(np.ascontiguousarray(rows_EL, dtype=np.uint8).data)
        self.num_rows += len(rows_EL)

    def finish(self) -> None:
        self._stream.seek(0)
        self._write_header()
        # numpy pads the header, so that the first axis can grow in place.
        assert self._stream.tell() == self._header_bytes

    def _write_header(self) -> None:
        shape = (self.num_rows, self._seq_len)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._stream, header)


class SetWriter:
    """Writer of one split: `add_puzzle` per version, `end_group` per group, then `finish`."""

    def __init__(
        self, folder: pathlib.Path, streams: Sequence[BinaryIO], *, vocab_size: int, seq_len: int
    ) -> None:
        self._folder = folder
        self._inputs, self._labels = (_TokenFile(stream, seq_len=seq_len) for stream in streams)
        self._vocab_size = vocab_size
        self._seq_len = seq_len
        self._identifiers = array("i")
        self._puzzle_ends = array("i", [0])
        self._group_ends = array("i", [0])

    @property
    def num_examples(self) -> int:
        """Examples written so far."""
        return self._inputs.num_rows

    def add_puzzle(
        self,
        inputs_EL: npt.NDArray[np.uint8],
        labels_EL: npt.NDArray[np.uint8],
        *,
        identifier: int = 0,
    ) -> None:
        """Append one version of a puzzle with its examples."""
        self._inputs.append(inputs_EL)
        self._labels.append(labels_EL)
        self._identifiers.append(identifier)
        self._puzzle_ends.append(self.num_examples)

    def end_group(self) -> None:
        """Close the group of the puzzles added since the last call; no-op if there are none."""
        if len(self._identifiers) > self._group_ends[-1]:
            self._group_ends.append(len(self._identifiers))

    def finish(self, *, num_puzzle_identifiers: int) -> SetMetadata:
        """Write headers, index arrays and metadata."""
        self._inputs.finish()
        self._labels.finish()
        num_puzzles = len(self._identifiers)
        metadata = SetMetadata(
            vocab_size=self._vocab_size,
            seq_len=self._seq_len,
            num_puzzle_identifiers=num_puzzle_identifiers,
            total_groups=len(self._group_ends) - 1,
            mean_puzzle_examples=self.num_examples / max(num_puzzles, 1),
            total_puzzles=num_puzzles,
        )
        indices = (self._identifiers, self._puzzle_ends, self._group_ends)
        for name, values in zip(INDEX_FIELDS, indices, strict=True):
            np.save(self._folder / f"{SET_NAME}__{name}.npy", np.array(values, dtype=np.int32))
        write_json(self._folder / METADATA_NAME, metadata.model_dump())
        return metadata


@contextmanager
def open_split(
    folder: pathlib.Path, split: str, *, vocab_size: int, seq_len: int
) -> Iterator[SetWriter]:
    """Open the files of one split; call :meth:`SetWriter.finish` inside the block."""
    place = folder / split
    place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        streams = [
            stack.enter_context((place / f"{SET_NAME}__{name}.npy").open("wb", _BUFFER_BYTES))
            for name in TOKEN_FIELDS
        ]
        yield SetWriter(place, streams, vocab_size=vocab_size, seq_len=seq_len)


def write_set(folder: pathlib.Path, split: str, data: PuzzleSet) -> None:
    """Write an in-memory split."""
    metadata = data.metadata
    starts, ends = data.puzzle_indices_P1[:-1], data.puzzle_indices_P1[1:]
    group_ends = set(data.group_indices_G1.tolist())
    sizes = {"vocab_size": metadata.vocab_size, "seq_len": metadata.seq_len}
    with open_split(folder, split, **sizes) as writer:
        for puzzle, (start, end) in enumerate(zip(starts, ends, strict=True)):
            writer.add_puzzle(
                data.inputs_NL[start:end],
                data.labels_NL[start:end],
                identifier=int(data.puzzle_identifiers_P[puzzle]),
            )
            if puzzle + 1 in group_ends:
                writer.end_group()
        writer.finish(num_puzzle_identifiers=metadata.num_puzzle_identifiers)


class IdentifierWriter:
    """Incremental writer of ``identifiers.json``: the names of identifiers 1, 2, ..."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.num_identifiers = 1
        """Including identifier 0, the blank one."""
        stream.write("[\n" + json.dumps(BLANK))

    def add(self, name: str) -> int:
        """Append ``name`` and return its identifier."""
        self._stream.write(",\n" + json.dumps(name))
        self.num_identifiers += 1
        return self.num_identifiers - 1


@contextmanager
def open_identifiers(folder: pathlib.Path) -> Iterator[IdentifierWriter]:
    """Open ``identifiers.json``; the JSON list is closed at the end of the block."""
    with (folder / IDENTIFIERS_NAME).open("w", encoding="utf-8") as stream:
        yield IdentifierWriter(stream)
        stream.write("\n]\n")


def write_blank_identifiers(folder: pathlib.Path) -> None:
    """Write ``identifiers.json`` with the blank identifier only."""
    with open_identifiers(folder):
        pass


def write_test_puzzles(folder: pathlib.Path, puzzles: Mapping[str, Any]) -> None:
    """Write the original, unaugmented test puzzles by name."""
    text = json.dumps(puzzles)
    (folder / TEST_PUZZLES_NAME).write_text(text + "\n", encoding="utf-8")
