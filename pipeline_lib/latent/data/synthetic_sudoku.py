"""Small Sudoku made from a generator: puzzles with one solution, or with exactly two.

A grid is a tuple of size x size digits, row by row; 0 is a blank. Only for tasks that are made here;
published Sudoku sets are read from their files.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

Cells = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Boxes of ``box_height`` x ``box_width`` cells; the size is their product."""

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
    """Givens and all of their solutions."""

    givens: Cells
    solutions: tuple[Cells, ...]


def solve(
    givens: Sequence[int], shape: Shape, *, limit: int, rng: random.Random | None = None
) -> list[Cells]:
    """Up to ``limit`` solutions; digits are tried in rising order, or in one drawn from ``rng``."""
    search = _Search(givens, shape, limit=limit, rng=rng)
    search.descend()
    return search.found


class _Search:
    """Depth first, at the blank with the fewest digits left; digits used are bits of a unit."""

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
        """Fill the rest in every way, until there are enough."""
        cell, left = self._tightest()
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

    def _tightest(self) -> tuple[int | None, int]:
        """The blank with the fewest digits left, and these as bits; None if there is no blank."""
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

    Givens are taken from a full grid in random order, for as long as there are no more solutions
    than that, until ``givens`` are left or none can go; a draw that misses the number is dropped.
    Where several solutions came late, cells in which all agree are given again, up to ``givens``.
    """
    while True:
        puzzle = _dig(shape, givens=givens, num_solutions=num_solutions, rng=rng)
        if len(puzzle.solutions) == num_solutions:
            return _refilled(puzzle, givens=givens, rng=rng)


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


def _refilled(puzzle: Puzzle, *, givens: int, rng: random.Random) -> Puzzle:
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


def reshaped(puzzle: Puzzle, shape: Shape, rng: random.Random) -> Puzzle:
    """The same puzzle in other clothes: digits renamed, rows and columns moved within the rules."""
    digits = [0, *rng.sample(range(1, shape.size + 1), shape.size)]
    rows = _moved_lines(shape.size, shape.box_height, rng)
    columns = _moved_lines(shape.size, shape.box_width, rng)
    order = [row * shape.size + column for row in rows for column in columns]

    def dressed(cells: Cells) -> Cells:
        return tuple(digits[cells[cell]] for cell in order)

    return Puzzle(givens=dressed(puzzle.givens), solutions=tuple(map(dressed, puzzle.solutions)))


def _moved_lines(size: int, depth: int, rng: random.Random) -> list[int]:
    """Bands of ``depth`` lines in random order, and the lines of each in random order."""
    bands = rng.sample(range(size // depth), size // depth)
    return [band * depth + line for band in bands for line in rng.sample(range(depth), depth)]
