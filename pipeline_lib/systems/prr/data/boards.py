"""Builds data folders of boards with one solution each, Sudoku and mazes, from published CSV files.

The columns are ``source,question,answer,rating``; a board is one string, row by row. A board is a group; its
versions are the group's puzzles, with one example each and the blank identifier. Augmentation and subsampling
apply to the train split only.

Legend: H rows and W columns of a board.
Source: sapientinc/HRM, ``dataset/build_sudoku_dataset.py`` and ``build_maze_dataset.py``;
huggingface.co/datasets/sapientinc/sudoku-extreme and sapientinc/maze-30x30-hard-1k.
"""

import itertools
import math
import pathlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.data_set import RawRow, file_rows
from pipeline_lib.seeding import child_generator
from pipeline_lib.store.files import digest_file
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.grids import NUM_DIHEDRALS, apply_dihedral
from pipeline_lib.systems.prr.data.set_writer import (
    Counts,
    OnProgress,
    build_folder,
    open_split,
    write_identifiers,
)

SPLITS = ("train", "test")
_RATING = TypeAdapter(int)
Cells = npt.NDArray[np.uint8]
"""Characters or tokens of a board [H, W], H = W."""
SolvedBoard = tuple[Cells, Cells]
"""A question and its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardOptions:
    """Options of the build; they determine its content."""

    num_aug: int = 0
    """Augmented versions per training board."""
    subsample_size: int | None = None
    """Number of training boards, drawn at random; None: all."""
    min_rating: int | None = None
    seed: int = 42


def _squares(board: RawRow, side: int) -> Iterator[Cells]:
    """The characters of question and answer as squares; BadInputError: another size, or non-ASCII characters."""
    for name in ("question", "answer"):
        text = board.text(name)
        if len(text) != side * side or not text.isascii():
            raise board.error(name, f"{len(text)} cells, expected {side} x {side}")
        yield np.frombuffer(text.encode(), dtype=np.uint8).reshape(side, side)


class Sudoku:
    """Boards of 9 x 9, with versions by symmetries that keep the difficulty; 1 is a blank, d + 1 is digit d."""

    vocab_size = 11

    def cells(self, board: RawRow) -> SolvedBoard:
        """Tokens; a blank may be written as a dot or a zero.

        Raises:
            BadInputError: the answer is not a valid Sudoku grid, or contradicts the question.
        """
        # uint8 wraps around, so characters below "0" become large.
        question, answer = (
            np.where(square == ord("."), np.uint8(0), square - np.uint8(ord("0")))
            for square in _squares(board, 9)
        )
        if question.max() > 9 or answer.max() > 9:
            raise board.error("question", "cells are the digits 1 to 9, and . or 0 for blanks")
        boxes = answer.reshape(3, 3, 3, 3).transpose(0, 2, 1, 3).reshape(9, 9)
        units = np.concatenate([answer, answer.T, boxes])
        if (np.sort(units, axis=1) != np.arange(1, 10)).any():
            raise board.error("answer", "not every digit once in each row, column and box")
        if ((question != answer) & (question != 0)).any():
            raise board.error("answer", "contradicts the question")
        return question + 1, answer + 1

    def versions(
        self, solved: SolvedBoard, num_aug: int, rng: np.random.Generator
    ) -> Iterator[SolvedBoard]:
        """Permute digits, bands, stacks and the lines within them; transpose half of the time."""
        for _ in range(num_aug):
            # Indexed by token: padding and blank are fixed.
            digits = np.concatenate([[0, 1], rng.permutation(9) + 2]).astype(np.uint8)
            rows, columns = _shuffled_lines(rng), _shuffled_lines(rng)
            turned = [cells.T for cells in solved] if rng.integers(2) else solved
            question, answer = (digits[cells[rows][:, columns]] for cells in turned)
            yield question, answer


def _shuffled_lines(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A permutation of rows (or columns) that keeps bands (or stacks) together."""
    return np.concatenate([3 * band + rng.permutation(3) for band in rng.permutation(3)])


_MAZE = "# SGo"
_MAZE_TOKENS = np.zeros(256, dtype=np.uint8)
_MAZE_TOKENS[list(_MAZE.encode())] = np.arange(1, len(_MAZE) + 1)
_WALL, _, _START, _GOAL, _PATH = range(1, len(_MAZE) + 1)


class Maze:
    """Squares of ``#`` wall, blank, ``S``tart, ``G``oal and ``o`` path, tokens 1 to 5, with their symmetries.

    The answer is the question with the path drawn in.
    """

    vocab_size = len(_MAZE) + 1

    def cells(self, board: RawRow) -> SolvedBoard:
        """Tokens.

        Raises:
            BadInputError: the maze is not a square of the five characters with one start and one goal, or question
                and answer differ in more than the path.
        """
        side = math.isqrt(len(board.text("question")))
        question, answer = (_MAZE_TOKENS[square] for square in _squares(board, side))
        if not (question.all() and answer.all()) or (question == _PATH).any():
            raise board.error("question", f"cells are {_MAZE!r}, the path (o) in the answer only")
        if (question == _START).sum() != 1 or (question == _GOAL).sum() != 1:
            raise board.error("question", "a maze has one start (S) and one goal (G)")
        changed = question != answer
        # Both conventions are accepted: the path may or may not cover start and goal.
        if (question[changed] == _WALL).any() or (answer[changed] != _PATH).any():
            raise board.error("answer", "differs from the question in more than its path")
        return question, answer

    def versions(
        self, solved: SolvedBoard, num_aug: int, rng: np.random.Generator
    ) -> Iterator[SolvedBoard]:
        """The first ``num_aug`` of the seven non-identity dihedral transforms."""
        del rng  # all seven are enumerated, none is drawn
        for dihedral in range(1, min(num_aug + 1, NUM_DIHEDRALS)):
            question, answer = (apply_dihedral(cells, dihedral) for cells in solved)
            yield question, answer


def build_boards(
    source: pathlib.Path,
    kind: Sudoku | Maze,
    options: BoardOptions,
    output: pathlib.Path,
    *,
    on_progress: OnProgress,
) -> Manifest:
    """Build the data folder ``output`` from ``train.csv`` and ``test.csv`` in ``source``.

    Raises:
        BadInputError: a file or a line is invalid, boards differ in size, or ``output`` holds other files.
    """
    paths = {split: source / f"{split}.csv" for split in SPLITS}
    for path in paths.values():
        if not path.is_file():
            raise BadInputError(
                f"{path}: no such file; give the folder that holds train.csv and test.csv"
            )

    def write(folder: pathlib.Path) -> Counts:
        counts: dict[str, int] = {}
        for path in paths.values():
            counts |= _write_split(folder, path, kind, options, on_progress)
        write_identifiers(folder, [])
        return counts

    return build_folder(
        output,
        write,
        module=__name__,
        options={"kind": type(kind).__name__, **asdict(options)},
        inputs={split: digest_file(path) for split, path in paths.items()},
    )


def _write_split(
    folder: pathlib.Path,
    path: pathlib.Path,
    kind: Sudoku | Maze,
    options: BoardOptions,
    on_progress: OnProgress,
) -> dict[str, int]:
    split = path.stem
    num_aug = options.num_aug if split == "train" else 0
    boards, count = _selected_boards(path, options)
    rng = child_generator(options.seed, "latent", "boards", split)
    first = next(boards)
    on_progress(0, count)
    shape = kind.cells(first)[0].shape
    seq_len = math.prod(shape)
    with open_split(folder, split, vocab_size=kind.vocab_size, seq_len=seq_len) as writer:
        for done, board in enumerate(itertools.chain([first], boards)):
            if done:
                on_progress(done, count)
            solved = kind.cells(board)
            if solved[0].shape != shape:
                raise board.error("question", f"{solved[0].shape} cells, the first has {shape}")
            for question, answer in (solved, *kind.versions(solved, num_aug, rng)):
                writer.add_puzzle([(question.ravel(), answer.ravel())])
            writer.end_group()
        writer.finish(num_puzzle_identifiers=1)
    return {f"{split}_boards": count, f"{split}_examples": writer.num_examples}


def _selected_boards(path: pathlib.Path, options: BoardOptions) -> tuple[Iterator[RawRow], int]:
    """The boards of one split that are taken, and their number."""
    # Counted first: a sample then needs a bitmap, not a list of millions of boards.
    available = sum(1 for _ in _read_boards(path, options.min_rating))
    if not available:
        raise BadInputError(f"{path}: no boards; lower --min-difficulty or fetch it again")
    boards, wanted = _read_boards(path, options.min_rating), options.subsample_size
    if path.stem != "train" or wanted is None or wanted >= available:
        return boards, available
    rng = child_generator(options.seed, "latent", "boards", "sample")
    taken = np.zeros(available, dtype=np.bool_)
    taken[rng.choice(available, size=wanted, replace=False)] = True
    return itertools.compress(boards, taken), wanted


def _read_boards(path: pathlib.Path, min_rating: int | None) -> Iterator[RawRow]:
    """Boards of a file in order, without those rated below ``min_rating``."""
    for board in file_rows(path):
        if min_rating is None or board.read(_RATING, "rating") >= min_rating:
            yield board
