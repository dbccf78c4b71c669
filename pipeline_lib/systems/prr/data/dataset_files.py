"""Reads and validates data folders in the format of TRM and HRM; `set_writer` writes them.

``FOLDER/identifiers.json`` and, for ARC, ``test_puzzles.json`` belong to both splits;
``FOLDER/{train,test}`` each contain ``dataset.json`` and ``all__{inputs,labels,puzzle_identifiers,
puzzle_indices,group_indices}.npy``. An example is one input with its label. A puzzle is one
augmented version of an original puzzle: consecutive examples with one identifier. A group is all versions of one
original puzzle.
Legend: N examples, L tokens, P puzzles (P1 = P + 1), G groups (G1 = G + 1).
Source: SamsungSAILMontreal/TinyRecursiveModels and sapientinc/HRM, ``puzzle_dataset.py``.
"""

import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, NonNegativeFloat, NonNegativeInt, PositiveInt

from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.problems.arc_grids import Challenge, read_puzzle
from pipeline_lib.problems.data_set import RawRow, source_identity
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_json, read_checked
from pipeline_lib.store.manifests import MANIFEST_NAME

BLANK = "<blank>"
"""Name of identifier 0, of data whose puzzles have no identifiers, as Sudoku and mazes."""
SET_NAME = "all"
METADATA_NAME = "dataset.json"
IDENTIFIERS_NAME = "identifiers.json"
TEST_PUZZLES_NAME = "test_puzzles.json"
TOKEN_FIELDS = ("inputs", "labels")
INDEX_FIELDS = ("puzzle_identifiers", "puzzle_indices", "group_indices")

_CHUNK_ROWS = 1 << 14
_MAPPED_BYTES = 1 << 20
_AGAIN = "build the data again"


class SetMetadata(BaseModel, frozen=True):
    """Content of ``dataset.json``, one per split. Unknown fields are ignored."""

    pad_id: Literal[0] = 0
    ignore_label_id: Literal[0] = 0
    blank_identifier_id: Literal[0] = 0
    vocab_size: PositiveInt
    seq_len: PositiveInt
    num_puzzle_identifiers: PositiveInt
    total_groups: NonNegativeInt
    mean_puzzle_examples: NonNegativeFloat
    total_puzzles: NonNegativeInt | None = None
    """Absent in HRM's files."""
    sets: tuple[str] = (SET_NAME,)

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        *,
        puzzles: int,
        groups: int,
        vocab_size: int,
        num_identifiers: int,
    ) -> "SetMetadata":
        """The metadata of a split with inputs of ``shape`` [N, L]."""
        return cls(
            vocab_size=vocab_size,
            seq_len=shape[1],
            num_puzzle_identifiers=num_identifiers,
            total_groups=groups,
            mean_puzzle_examples=shape[0] / max(puzzles, 1),
            total_puzzles=puzzles,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PuzzleSet:
    """One split. The tokens may be memory-mapped: treat them as read-only."""

    metadata: SetMetadata
    inputs_NL: npt.NDArray[np.uint8]
    labels_NL: npt.NDArray[np.uint8]
    """0 at positions without a label."""
    puzzle_identifiers_P: npt.NDArray[np.int32]
    puzzle_indices_P1: npt.NDArray[np.int32]
    """First example of each puzzle, then N."""
    group_indices_G1: npt.NDArray[np.int32]
    """First puzzle of each group, then P."""
    identifiers_digest: str | None = None
    """Of the identifiers' names; None without identifiers.json."""

    @classmethod
    def of(
        cls,
        *,
        inputs_NL: npt.NDArray[np.uint8],
        labels_NL: npt.NDArray[np.uint8],
        puzzle_identifiers: Sequence[int],
        puzzle_indices: Sequence[int],
        group_indices: Sequence[int],
        vocab_size: int,
    ) -> "PuzzleSet":
        """A split in memory; the metadata are derived from the arrays."""
        return cls(
            metadata=SetMetadata.of(
                inputs_NL.shape,
                puzzles=len(puzzle_identifiers),
                groups=len(group_indices) - 1,
                vocab_size=vocab_size,
                num_identifiers=max(puzzle_identifiers, default=0) + 1,
            ),
            inputs_NL=inputs_NL,
            labels_NL=labels_NL,
            puzzle_identifiers_P=np.array(puzzle_identifiers, dtype=np.int32),
            puzzle_indices_P1=np.array(puzzle_indices, dtype=np.int32),
            group_indices_G1=np.array(group_indices, dtype=np.int32),
        )

    @property
    def example_identifiers(self) -> npt.NDArray[np.int32]:
        """The puzzle identifier of each example [N]."""
        return np.repeat(self.puzzle_identifiers_P, np.diff(self.puzzle_indices_P1))


def read_set(folder: pathlib.Path, split: str) -> PuzzleSet:
    """Read and validate one split. Token arrays above 1 MiB are memory-mapped.

    Raises:
        BadInputError: a file is missing, or inconsistent with the others; the message names it.
    """
    place = folder / split
    metadata = read_checked(place / METADATA_NAME, SetMetadata, remedy=_AGAIN)
    paths = {
        name: place / f"{metadata.sets[0]}__{name}.npy" for name in (*TOKEN_FIELDS, *INDEX_FIELDS)
    }
    inputs_NL, labels_NL = (load_array(paths[name], axes=2) for name in TOKEN_FIELDS)
    identifiers, puzzles, groups = (
        load_array(paths[name], axes=1).astype(np.int32) for name in INDEX_FIELDS
    )
    is_named = (folder / IDENTIFIERS_NAME).is_file()
    data = PuzzleSet(
        metadata=metadata,
        inputs_NL=inputs_NL,
        labels_NL=labels_NL,
        puzzle_identifiers_P=identifiers,
        puzzle_indices_P1=puzzles,
        group_indices_G1=groups,
        # Of the parsed names: other programs may format the same list differently.
        identifiers_digest=digest_json(read_identifiers(folder)) if is_named else None,
    )
    for name, complaint in _complaints(data):
        raise BadInputError(f"{paths[name]}: {complaint}; {_AGAIN}")
    return data


def load_array(path: pathlib.Path, *, axes: int) -> npt.NDArray[Any]:
    """The integers of an .npy file; above 1 MiB they are memory-mapped.

    Raises:
        BadInputError: it is missing or damaged, or holds something else.
    """
    wrong = (ValueError, OSError, EOFError)
    with errors_at(path, *wrong, fault="not a numpy array", remedy=_AGAIN):
        # An empty array cannot be mapped, and mapping a small one has no benefit.
        is_large = path.stat().st_size > _MAPPED_BYTES
        array: npt.NDArray[Any] = np.load(
            path, mmap_mode="r" if is_large else None, allow_pickle=False
        )
    if array.ndim != axes or not np.issubdtype(array.dtype, np.integer):
        raise BadInputError(
            f"{path}: {array.dtype} with {array.ndim} axes, expected integers with {axes}; {_AGAIN}"
        )
    return array


def _complaints(data: PuzzleSet) -> Iterator[tuple[str, str]]:
    """Array name and message per violation, cheap checks first."""
    metadata = data.metadata
    num_examples, num_puzzles = len(data.inputs_NL), len(data.puzzle_identifiers_P)
    shape = (num_examples, metadata.seq_len)
    tokens = dict(zip(TOKEN_FIELDS, (data.inputs_NL, data.labels_NL), strict=True))
    for name, tokens_NL in tokens.items():
        if tokens_NL.shape != shape:
            yield name, f"shape {tokens_NL.shape}, expected {shape}: examples, seq_len"
    yield from _index_complaints(data, num_examples, num_puzzles)
    if metadata.total_puzzles not in {None, num_puzzles}:
        yield "puzzle_identifiers", f"{num_puzzles} puzzles, not {metadata.total_puzzles}"
    limits = {"puzzle_identifiers": metadata.num_puzzle_identifiers}
    for name, values in ({"puzzle_identifiers": data.puzzle_identifiers_P} | tokens).items():
        limit = limits.get(name, metadata.vocab_size)
        # In chunks: mapped files may be larger than memory.
        chunks = (values[i : i + _CHUNK_ROWS] for i in range(0, len(values), _CHUNK_ROWS))
        if not all(chunk.min() >= 0 and chunk.max() < limit for chunk in chunks):
            yield name, f"holds values outside 0 to {limit - 1}"


def _index_complaints(
    data: PuzzleSet, num_examples: int, num_puzzles: int
) -> Iterator[tuple[str, str]]:
    for name, starts, num_parts, end in (
        ("puzzle_indices", data.puzzle_indices_P1, num_puzzles, num_examples),
        ("group_indices", data.group_indices_G1, data.metadata.total_groups, num_puzzles),
    ):
        if len(starts) != num_parts + 1:
            yield name, f"{len(starts)} entries, expected {num_parts + 1}"
        elif starts[0] != 0 or starts[-1] != end or (np.diff(starts) < 1).any():
            yield name, f"does not rise from 0 to {end}"


def read_identifiers(folder: pathlib.Path) -> list[str]:
    """Name of each puzzle identifier.

    Raises:
        BadInputError: the file is missing or not a list of names.
    """
    return read_checked(folder / IDENTIFIERS_NAME, list[str], remedy=_AGAIN)


def read_test_puzzles(folder: pathlib.Path) -> dict[str, Challenge]:
    """The original test puzzles of an ARC folder by name.

    Raises:
        BadInputError: the file is missing or a puzzle is invalid.
    """
    path = folder / TEST_PUZZLES_NAME
    puzzles = read_checked(path, dict[str, dict[str, Any]], remedy=_AGAIN)
    return {
        name: read_puzzle(
            RawRow(fields={**fields, "id": name}, where=f"{path} puzzle {name}", index=index),
            Challenge,
        )
        for index, (name, fields) in enumerate(puzzles.items())
    }


def data_digest(folder: pathlib.Path) -> str:
    """Digest of a data folder, with or without a manifest.

    Raises:
        BadInputError: there is no such folder, or its files differ from its manifest.
    """
    if not folder.is_dir():
        raise BadInputError(
            f"{folder}: no such folder; build one with `reasonloop prr build-synthetic` or its siblings"
        )
    if (folder / MANIFEST_NAME).is_file():
        manifest = manifests.read_manifest(folder)
        manifests.check(folder, manifest)
        return manifest.digest
    return source_identity(str(folder))["folder"]
