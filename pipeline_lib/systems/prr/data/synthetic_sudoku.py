"""Generates small Sudoku puzzles with exactly one or two solutions, by digging holes.

A grid is a tuple of size x size digits, row by row; 0 is a blank. Published 9 x 9 sets are read by
`boards`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

Cells = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Box dimensions in cells; their product is the size of the grid."""

    box_height: int
    box_width: int

    @property
    def size(self) -> int:
        """Rows, columns and digits of the grid."""
        return self.box_height * self.box_width

    def units(self, cell: int) -> tuple[int, int, int]:
        """Row, column and box of a cell."""
        row, column = divmod(cell, self.size)
        box = row // self.box_height * self.box_height + column // self.box_width
        return row, column, box


FOUR = Shape(box_height=2, box_width=2)
SIX = Shape(box_height=2, box_width=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """Givens with all of their solutions."""

    givens: Cells
    solutions: tuple[Cells, ...]


def solve(
    givens: Sequence[int], shape: Shape, *, limit: int, rng: random.Random | None = None
) -> list[Cells]:
    """Up to ``limit`` solutions; digits are tried in ascending order, or shuffled by ``rng``."""
    search = _Search(givens, shape, limit=limit, rng=rng)
    search.descend()
    return search.found


class _Search:
    """Depth-first search on the most constrained blank; used digits are bit masks per unit."""

    def __init__(
        self, givens: Sequence[int], shape: Shape, *, limit: int, rng: random.Random | None
    ) -> None:
        self.found: list[Cells] = []
        self._cells = list(givens)
        self._limit = limit
        self._rng = rng
        self._all = (1 << shape.size) - 1
        self._units = [shape.units(cell) for cell in range(shape.size**2)]
        self._rows, self._columns, self._boxes = ([0] * shape.size for _ in range(3))
        for cell, digit in enumerate(givens):
            if digit:
                self._flip(cell, 1 << (digit - 1))

    def _flip(self, cell: int, bit: int) -> None:
        row, column, box = self._units[cell]
        self._rows[row] ^= bit
        self._columns[column] ^= bit
        self._boxes[box] ^= bit

    def descend(self) -> None:
        """Complete the grid in all ways, up to the limit."""
        cell, left = self._most_constrained()
        if cell is None:
            self.found.append(tuple(self._cells))
            return
        bits = [1 << shift for shift in range(left.bit_length()) if left >> shift & 1]
        if self._rng is not None:
            self._rng.shuffle(bits)
        for bit in bits:
            self._cells[cell] = bit.bit_length()
            self._flip(cell, bit)
            self.descend()
            self._flip(cell, bit)
            self._cells[cell] = 0
            if len(self.found) == self._limit:
                return

    def _most_constrained(self) -> tuple[int | None, int]:
        """The blank with the fewest candidates, and these as bits; None if the grid is full."""
        best, best_left, fewest = None, 0, self._all.bit_length() + 1
        for cell, digit in enumerate(self._cells):
            if digit:
                continue
            row, column, box = self._units[cell]
            left = self._all & ~(self._rows[row] | self._columns[column] | self._boxes[box])
            if (count := left.bit_count()) < fewest:
                best, best_left, fewest = cell, left, count
                if count < 2:
                    break
        return best, best_left


def make_puzzle(shape: Shape, *, givens: int, num_solutions: int, rng: random.Random) -> Puzzle:
    """Draw a puzzle with exactly ``num_solutions`` solutions.

    Cells of a full grid are removed in random order while at most ``num_solutions`` solutions
    exist, until ``givens`` are left or none can be removed; a draw with another number is rejected.
    If the last solution appeared late, cells on which all solutions agree are restored, up to
    ``givens``.
    """
    while True:
        puzzle = _dig(shape, givens=givens, num_solutions=num_solutions, rng=rng)
        if len(puzzle.solutions) == num_solutions:
            return _restore_givens(puzzle, givens=givens, rng=rng)


def _dig(shape: Shape, *, givens: int, num_solutions: int, rng: random.Random) -> Puzzle:
    full = solve([0] * shape.size**2, shape, limit=1, rng=rng)[0]
    cells, solutions = list(full), [full]
    for cell in rng.sample(range(len(full)), len(full)):
        enough = len(solutions) == num_solutions
        if enough and sum(digit > 0 for digit in cells) <= givens:
            break
        cells[cell] = 0
        found = solve(cells, shape, limit=num_solutions + 1)
        if len(found) > num_solutions:
            cells[cell] = full[cell]
        else:
            solutions = found
    return Puzzle(givens=tuple(cells), solutions=tuple(solutions))


def _restore_givens(puzzle: Puzzle, *, givens: int, rng: random.Random) -> Puzzle:
    cells = list(puzzle.givens)
    agreed = [
        cell
        for cell, digits in enumerate(zip(*puzzle.solutions, strict=True))
        if not cells[cell] and len(set(digits)) == 1
    ]
    missing = max(0, givens - sum(digit > 0 for digit in cells))
    for cell in rng.sample(agreed, min(missing, len(agreed))):
        cells[cell] = puzzle.solutions[0][cell]
    return Puzzle(givens=tuple(cells), solutions=puzzle.solutions)


def permute_puzzle(puzzle: Puzzle, shape: Shape, rng: random.Random) -> Puzzle:
    """An equivalent puzzle: digits permuted, rows and columns permuted within and between bands."""
    digits = [0, *rng.sample(range(1, shape.size + 1), shape.size)]
    rows = _permute_lines(shape.size, shape.box_height, rng)
    columns = _permute_lines(shape.size, shape.box_width, rng)
    order = [row * shape.size + column for row in rows for column in columns]

    def permute(cells: Cells) -> Cells:
        return tuple(digits[cells[cell]] for cell in order)

    return Puzzle(givens=permute(puzzle.givens), solutions=tuple(map(permute, puzzle.solutions)))


def _permute_lines(size: int, depth: int, rng: random.Random) -> list[int]:
    """Line order after shuffling bands of ``depth`` lines, and the lines within each band."""
    bands = rng.sample(range(size // depth), size // depth)
    return [band * depth + line for band in bands for line in rng.sample(range(depth), depth)]
