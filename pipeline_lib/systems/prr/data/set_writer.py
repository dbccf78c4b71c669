"""Writes data folders in the format of TRM and HRM; tokens incrementally, in constant memory.

Legend: E examples of a puzzle, L tokens.
"""

import json
import pathlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_json
from pipeline_lib.store.folders import check_output_folder, replaced
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
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

KIND = "latent-data"
Counts = Mapping[str, float]
OnProgress = Callable[[int, int], None]
"""Called with the number of items done and the total."""
Example = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]
"""Tokens of an input and of its label."""
_BUFFER_BYTES = 1 << 20


class SetWriter:
    """Writer of one split: `add_puzzle` per version, `end_group` per group, then `finish`."""

    def __init__(
        self, place: pathlib.Path, streams: Sequence[BinaryIO], *, vocab_size: int, seq_len: int
    ) -> None:
        self._place = place
        self._streams = streams
        self._vocab_size = vocab_size
        self._seq_len = seq_len
        self._identifiers = array("i")
        self._puzzle_ends = array("i", [0])
        self._group_ends = array("i", [0])
        self._write_headers()

    @property
    def num_examples(self) -> int:
        """Examples written so far."""
        return self._puzzle_ends[-1]

    def add_puzzle(self, examples: Sequence[Example], *, identifier: int = 0) -> None:
        """Append one version of a puzzle with its examples."""
        for stream, rows_EL in zip(self._streams, zip(*examples, strict=True), strict=True):
            stream.write(np.stack(rows_EL).tobytes())
        self._identifiers.append(identifier)
        self._puzzle_ends.append(self.num_examples + len(examples))

    def end_group(self) -> None:
        """Close the group of the puzzles added since the last call; no-op if there are none."""
        if len(self._identifiers) > self._group_ends[-1]:
            self._group_ends.append(len(self._identifiers))

    def finish(self, *, num_puzzle_identifiers: int) -> None:
        """Write headers, index arrays and metadata."""
        self._write_headers()
        metadata = SetMetadata.of(
            (self.num_examples, self._seq_len),
            puzzles=len(self._identifiers),
            groups=len(self._group_ends) - 1,
            vocab_size=self._vocab_size,
            num_identifiers=num_puzzle_identifiers,
        )
        indices = (self._identifiers, self._puzzle_ends, self._group_ends)
        for name, values in zip(INDEX_FIELDS, indices, strict=True):
            _save(self._place, name, np.array(values, dtype=np.int32))
        write_json(self._place / METADATA_NAME, metadata.model_dump())

    def _write_headers(self) -> None:
        # numpy pads the header, so that the first axis can grow in place.
        shape = (self.num_examples, self._seq_len)
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        for stream in self._streams:
            stream.seek(0)
            np.lib.format.write_array_header_1_0(stream, header)


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
    place = folder / split
    place.mkdir(parents=True, exist_ok=True)
    arrays: tuple[npt.NDArray[Any], ...] = (
        *(data.inputs_NL, data.labels_NL),
        *(data.puzzle_identifiers_P, data.puzzle_indices_P1, data.group_indices_G1),
    )
    for name, values in zip((*TOKEN_FIELDS, *INDEX_FIELDS), arrays, strict=True):
        _save(place, name, values)
    write_json(place / METADATA_NAME, data.metadata.model_dump())


def _save(place: pathlib.Path, name: str, values: npt.NDArray[Any]) -> None:
    np.save(place / f"{SET_NAME}__{name}.npy", values)


def write_identifiers(folder: pathlib.Path, names: Sequence[str]) -> None:
    """Write ``identifiers.json``: the blank one, then ``names``, which have the numbers 1, 2, ..."""
    text = json.dumps([BLANK, *names], indent=0)
    (folder / IDENTIFIERS_NAME).write_text(text + "\n", encoding="utf-8")


def write_test_puzzles(folder: pathlib.Path, puzzles: Mapping[str, Any]) -> None:
    """Write the original, unaugmented test puzzles by name."""
    text = json.dumps(puzzles)
    (folder / TEST_PUZZLES_NAME).write_text(text + "\n", encoding="utf-8")


def build_folder(
    output: pathlib.Path,
    write: Callable[[pathlib.Path], Counts],
    *,
    module: str,
    options: Mapping[str, Any],
    inputs: Mapping[str, str],
) -> Manifest:
    """Fill a temporary folder with ``write``, seal it and move it to ``output``, unless it was built before.

    ``write`` returns counts for the manifest. The key covers the code of ``module``, the ``options``, plain values that
    determine the content, and the digests of ``inputs`` by name. A folder with another key is replaced.

    Raises:
        BadInputError: ``output`` holds other files or cannot be written.
    """
    check_output_folder(output, kind=KIND)
    key = stage_key(module, params=options, inputs=inputs)
    finished = manifests.current(output, kind=KIND, key=key)
    if finished is not None:
        return finished
    with replaced(output) as fresh:
        counts = write(fresh)
        return manifests.seal(fresh, kind=KIND, key=key, counts=counts)
