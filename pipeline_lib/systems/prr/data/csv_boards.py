"""Boards with solutions from CSV files in the format of Sudoku-Extreme and Maze-Hard.

The columns are ``source,question,answer,rating``; a board is one string, row by row. Characters are
interpreted by the board kinds.
Source: huggingface.co/datasets/sapientinc/sudoku-extreme and sapientinc/maze-30x30-hard-1k.
"""

import csv
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError

SPLITS = ("train", "test")
Characters = npt.NDArray[np.uint8]
"""A board's characters as bytes [H, W], H = W."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A question with its answer, and their file and line."""

    question: str
    answer: str
    where: str

    def error(self, complaint: str) -> BadInputError:
        """The error for an invalid board."""
        return BadInputError(f"{self.where}: {complaint}; correct or remove the line")

    def squares(self, side: int) -> tuple[Characters, Characters]:
        """Question and answer as square arrays.

        Raises:
            BadInputError: another size, or non-ASCII characters.
        """
        for name, text in (("question", self.question), ("answer", self.answer)):
            if len(text) != side * side or not text.isascii():
                raise self.error(f"the {name} has {len(text)} cells, expected {side} x {side}")
        question, answer = (
            np.frombuffer(text.encode(), dtype=np.uint8).reshape(side, side)
            for text in (self.question, self.answer)
        )
        return question, answer


def csv_path(source: pathlib.Path, split: str) -> pathlib.Path:
    """Path of a split's file.

    Raises:
        BadInputError: it does not exist.
    """
    path = source / f"{split}.csv"
    if not path.is_file():
        raise BadInputError(
            f"{path}: no such file; give the folder that holds train.csv and test.csv"
        )
    return path


def read_boards(path: pathlib.Path, *, min_rating: int | None = None) -> Iterator[Board]:
    """Boards of a file in order, without those rated below ``min_rating``.

    Raises:
        BadInputError: a column is missing, or a rating is not an integer.
    """
    needed = {"question", "answer"} | ({"rating"} if min_rating is not None else set())
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = csv.DictReader(stream)
        try:
            if absent := sorted(needed - set(rows.fieldnames or ())):
                raise BadInputError(
                    f"{path}:1: no column {', '.join(absent)}; "
                    "expected source,question,answer,rating"
                )
            for row in rows:
                where = f"{path}:{rows.line_num}"
                # A short line has None where columns are missing.
                board = Board(
                    question=row["question"] or "", answer=row["answer"] or "", where=where
                )
                if min_rating is None or _rating(board, row["rating"]) >= min_rating:
                    yield board
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadInputError(f"{path}:{rows.line_num}: not CSV ({error})") from error


def _rating(board: Board, text: str | None) -> int:
    if text is None or not text.strip().isdecimal():
        raise board.error(f"the rating {text!r} is not an integer")
    return int(text)
