"""Builds data folders of boards with one solution each: Sudoku and mazes.

A board is a group; its versions are the group's puzzles, with one example each and the blank
identifier. Augmentation and subsampling apply to the train split only.
Source: sapientinc/HRM, ``dataset/build_sudoku_dataset.py`` and ``build_maze_dataset.py``.
"""

import itertools
import math
import pathlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.seeding import child_generator
from pipeline_lib.store.files import digest_file
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.built_folder import Counts, OnProgress, build_folder
from pipeline_lib.systems.prr.data.csv_boards import SPLITS, Board, csv_path, read_boards
from pipeline_lib.systems.prr.data.set_writer import open_split, write_blank_identifiers

Cells = npt.NDArray[np.uint8]
"""Tokens of a board [side, side]."""
SolvedBoard = tuple[Cells, Cells]
"""A question and its answer."""


class BoardKind(Protocol):
    """One kind of board: its vocabulary, parser and augmentation."""

    vocab_size: int

    def cells(self, board: Board) -> SolvedBoard:
        """Tokens of question and answer; BadInputError for an invalid board."""
        ...

    def versions(
        self, solved: SolvedBoard, num_aug: int, rng: np.random.Generator
    ) -> Iterator[SolvedBoard]:
        """Up to ``num_aug`` other versions of the board."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """Options of the build; they determine its content."""

    num_aug: int = 0
    """Augmented versions per training board."""
    subsample_size: int | None = None
    """Number of training boards, drawn at random; None: all."""
    min_rating: int | None = None
    seed: int = 42


def build_boards(
    source: pathlib.Path,
    kind: BoardKind,
    options: BoardOptions,
    output: pathlib.Path,
    *,
    on_progress: OnProgress,
) -> Manifest:
    """Build the data folder ``output`` from ``train.csv`` and ``test.csv`` in ``source``.

    Raises:
        BadInputError: a file or a line is invalid, boards differ in size, or ``output`` holds
            other files.
    """
    paths = {split: csv_path(source, split) for split in SPLITS}

    def write(folder: pathlib.Path) -> Counts:
        counts: dict[str, int] = {}
        for split, path in paths.items():
            chosen = _SelectedBoards(path, split, options, on_progress)
            counts |= _write_split(folder, split, chosen, kind, options)
        write_blank_identifiers(folder)
        return counts

    return build_folder(
        output,
        write,
        module=type(kind).__module__,
        options=asdict(options),
        inputs={split: digest_file(path) for split, path in paths.items()},
    )


def _write_split(
    folder: pathlib.Path,
    split: str,
    chosen: "_SelectedBoards",
    kind: BoardKind,
    options: BoardOptions,
) -> dict[str, int]:
    rng = child_generator(options.seed, "latent", "boards", split)
    num_aug = options.num_aug if split == "train" else 0
    boards = iter(chosen)
    first = next(boards)
    shape = kind.cells(first)[0].shape
    seq_len = math.prod(shape)
    with open_split(folder, split, vocab_size=kind.vocab_size, seq_len=seq_len) as writer:
        for board in itertools.chain([first], boards):
            solved = kind.cells(board)
            if solved[0].shape != shape:
                raise board.error(f"{solved[0].shape} cells, the first board has {shape}")
            for question, answer in (solved, *kind.versions(solved, num_aug, rng)):
                writer.add_puzzle(question.reshape(1, -1), answer.reshape(1, -1))
            writer.end_group()
        writer.finish(num_puzzle_identifiers=1)
    return {f"{split}_boards": chosen.count, f"{split}_examples": writer.num_examples}


class _SelectedBoards:
    """The selected boards of one split; every iteration reads the file again."""

    def __init__(
        self, path: pathlib.Path, split: str, options: BoardOptions, on_progress: OnProgress
    ) -> None:
        self._path = path
        self._min_rating = options.min_rating
        self._on_progress = on_progress
        # Counted first: a sample then needs a bitmap, not a list of millions of boards.
        available = sum(1 for _ in self._all())
        if not available:
            raise BadInputError(f"{path}: no boards; lower --min-difficulty or fetch it again")
        self.count = available
        self._taken: npt.NDArray[np.bool_] | None = None
        wanted = options.subsample_size
        if split == "train" and wanted is not None and wanted < available:
            rng = child_generator(options.seed, "latent", "boards", "sample")
            self._taken = np.zeros(available, dtype=np.bool_)
            self._taken[rng.choice(available, size=wanted, replace=False)] = True
            self.count = wanted

    def _all(self) -> Iterator[Board]:
        return read_boards(self._path, min_rating=self._min_rating)

    def __iter__(self) -> Iterator[Board]:
        boards = (
            self._all() if self._taken is None else itertools.compress(self._all(), self._taken)
        )
        for done, board in enumerate(boards):
            self._on_progress(done, self.count)
            yield board
