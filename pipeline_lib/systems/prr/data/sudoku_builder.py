"""Sudoku from the CSV files of Sudoku-Extreme: 9 x 9; token 1 is a blank, d + 1 is digit d.

Legend: H rows and W columns, 9 each.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pipeline_lib.systems.prr.data.board_builder import Cells, SolvedBoard
from pipeline_lib.systems.prr.data.csv_boards import Board, Characters

SIDE = 9
_BOX = 3
_BLANK = 1
# Each digit once: nine powers of two have this sum only if they are distinct.
_ALL_DIGITS = sum(1 << digit for digit in range(1, SIDE + 1))


class Sudoku:
    """Parses and validates 9 x 9 boards; augments them by symmetries that keep the difficulty."""

    vocab_size = SIDE + 2

    def cells(self, board: Board) -> SolvedBoard:
        """Tokens; a blank may be written as a dot or a zero.

        Raises:
            BadInputError: the answer is not a valid Sudoku grid, or contradicts the question.
        """
        question, answer = map(_digits, board.squares(SIDE))
        if question.max() > SIDE or answer.max() > SIDE:
            raise board.error("cells are the digits 1 to 9, and in the question . or 0 for blanks")
        if not _is_solved(answer):
            raise board.error("the answer has not every digit once in each row, column and box")
        if ((question != answer) & (question != 0)).any():
            raise board.error("the answer contradicts the question")
        return question + _BLANK, answer + _BLANK

    def versions(
        self, solved: SolvedBoard, num_aug: int, rng: np.random.Generator
    ) -> Iterator[SolvedBoard]:
        """Permute digits, bands, stacks and the lines within them; transpose half of the time."""
        question, answer = solved
        for _ in range(num_aug):
            # Indexed by token: padding and blank are fixed.
            digits = np.concatenate([[0, _BLANK], rng.permutation(SIDE) + _BLANK + 1]).astype(
                np.uint8
            )
            rows, columns = _order(rng), _order(rng)
            transposed = bool(rng.integers(2))

            def moved(cells: Cells) -> Cells:
                turned = cells.T if transposed else cells  # noqa: B023 - called at once
                return digits[turned[rows][:, columns]]  # noqa: B023 - as above

            yield moved(question), moved(answer)


def _digits(characters_HW: Characters) -> Cells:
    """Digits, 0 for a blank; invalid characters become values above 9."""
    blanks = characters_HW == ord(".")
    # uint8 wraps around, so characters below "0" become large.
    return np.where(blanks, np.uint8(0), characters_HW - np.uint8(ord("0")))


def _is_solved(digits_HW: Cells) -> bool:
    masks_HW = np.left_shift(1, digits_HW.astype(np.int64))
    boxes = masks_HW.reshape(_BOX, _BOX, _BOX, _BOX).sum(axis=(1, 3))
    sums = (masks_HW.sum(axis=0), masks_HW.sum(axis=1), boxes)
    return all((one == _ALL_DIGITS).all() for one in sums)


def _order(rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A permutation of rows (or columns) that keeps bands (or stacks) together."""
    return np.concatenate([_BOX * band + rng.permutation(_BOX) for band in rng.permutation(_BOX)])
