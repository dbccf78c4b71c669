"""Writes data folders of TRM and HRM, example by example, so that memory does not grow with them.

The arrays are appended to their files; the number of rows is entered into the header at the end.
Legend: E examples that are added at once, L tokens.
"""

import json
import pathlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, TextIO

import numpy as np
import numpy.typing as npt

from pipeline_lib.latent.data.dataset_files import (
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
from pipeline_lib.storage.files import write_json

_BUFFER_BYTES = 1 << 20


class _TokenFile:
    """A .npy file of uint8 rows that is appended to."""

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
        # numpy leaves room in a header for the first axis to grow.
        assert self._stream.tell() == self._header_bytes

    def _write_header(self) -> None:
        shape = (self.num_rows, self._seq_len)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._stream, header)


class SetWriter:
    """One split that is being written: examples, then the end of their puzzle, then of its group."""

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
        """Examples so far."""
        return self._inputs.num_rows

    def add_puzzle(
        self,
        inputs_EL: npt.NDArray[np.uint8],
        labels_EL: npt.NDArray[np.uint8],
        *,
        identifier: int = 0,
    ) -> None:
        """Append one version of a puzzle with all of its examples."""
        self._inputs.append(inputs_EL)
        self._labels.append(labels_EL)
        self._identifiers.append(identifier)
        self._puzzle_ends.append(self.num_examples)

    def end_group(self) -> None:
        """The puzzles since the last end are one group; without any, nothing happens."""
        if len(self._identifiers) > self._group_ends[-1]:
            self._group_ends.append(len(self._identifiers))

    def finish(self, *, num_puzzle_identifiers: int) -> SetMetadata:
        """Write what is only known at the end."""
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
def writing(
    folder: pathlib.Path, split: str, *, vocab_size: int, seq_len: int
) -> Iterator[SetWriter]:
    """Open the files of one split; :meth:`SetWriter.finish` belongs into the block."""
    place = folder / split
    place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        streams = [
            stack.enter_context((place / f"{SET_NAME}__{name}.npy").open("wb", _BUFFER_BYTES))
            for name in TOKEN_FIELDS
        ]
        yield SetWriter(place, streams, vocab_size=vocab_size, seq_len=seq_len)


def write_set(folder: pathlib.Path, split: str, data: PuzzleSet) -> None:
    """Write one split that is in memory."""
    metadata = data.metadata
    starts, ends = data.puzzle_indices_P1[:-1], data.puzzle_indices_P1[1:]
    group_ends = set(data.group_indices_G1.tolist())
    sizes = {"vocab_size": metadata.vocab_size, "seq_len": metadata.seq_len}
    with writing(folder, split, **sizes) as writer:
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
    """``identifiers.json`` while it is written: what the identifiers 1, 2, ... stand for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.num_identifiers = 1
        """Identifier 0, no puzzle in particular, is there from the start."""
        stream.write("[\n" + json.dumps(BLANK))

    def add(self, name: str) -> int:
        """The identifier that ``name`` gets."""
        self._stream.write(",\n" + json.dumps(name))
        self.num_identifiers += 1
        return self.num_identifiers - 1


@contextmanager
def writing_identifiers(folder: pathlib.Path) -> Iterator[IdentifierWriter]:
    """Open ``identifiers.json``; at the end of the block it is whole."""
    with (folder / IDENTIFIERS_NAME).open("w", encoding="utf-8") as stream:
        yield IdentifierWriter(stream)
        stream.write("\n]\n")


def write_no_identifiers(folder: pathlib.Path) -> None:
    """Write ``identifiers.json`` of data without puzzles of their own: all have identifier 0."""
    with writing_identifiers(folder):
        pass


def write_test_puzzles(folder: pathlib.Path, puzzles: Mapping[str, Any]) -> None:
    """Write the original test puzzles, as they were published, by name."""
    text = json.dumps(puzzles)
    (folder / TEST_PUZZLES_NAME).write_text(text + "\n", encoding="utf-8")
