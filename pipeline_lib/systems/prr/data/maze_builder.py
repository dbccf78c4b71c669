"""Mazes from the CSV files of Maze-Hard.

Cells are ``#`` wall, blank, ``S``tart, ``G``oal and ``o`` path: tokens 1 to 5 in this order. The
answer is the question with the path drawn in.
"""

import math
from collections.abc import Iterator

import numpy as np

from pipeline_lib.systems.prr.data.augmentation import NUM_DIHEDRALS, apply_dihedral
from pipeline_lib.systems.prr.data.board_builder import SolvedBoard
from pipeline_lib.systems.prr.data.csv_boards import Board

CHARACTERS = "# SGo"
_TOKENS = np.zeros(256, dtype=np.uint8)
_TOKENS[list(CHARACTERS.encode())] = np.arange(1, len(CHARACTERS) + 1)
_WALL, _START, _GOAL, _PATH = (CHARACTERS.index(character) + 1 for character in "#SGo")


class Maze:
    """Parses and validates mazes; augments them by dihedral transforms."""

    vocab_size = len(CHARACTERS) + 1

    def cells(self, board: Board) -> SolvedBoard:
        """Tokens.

        Raises:
            BadInputError: the maze is not a square of the five characters with one start and one
                goal, or question and answer differ in more than the path.
        """
        side = math.isqrt(len(board.question))
        question, answer = (_TOKENS[square] for square in board.squares(side))
        if not (question.all() and answer.all()) or (question == _PATH).any():
            raise board.error(f"cells are {CHARACTERS!r}, and the path (o) is in the answer only")
        if (question == _START).sum() != 1 or (question == _GOAL).sum() != 1:
            raise board.error("a maze has one start (S) and one goal (G)")
        changed = question != answer
        # Both conventions are accepted: the path may or may not cover start and goal.
        if (question[changed] == _WALL).any() or (answer[changed] != _PATH).any():
            raise board.error("the answer differs from the question in more than its path")
        return question, answer

    def versions(
        self, solved: SolvedBoard, num_aug: int, rng: np.random.Generator
    ) -> Iterator[SolvedBoard]:
        """The first ``num_aug`` of the seven non-identity dihedral transforms."""
        del rng  # all seven are enumerated, none is drawn
        question, answer = solved
        for dihedral in range(1, min(num_aug + 1, NUM_DIHEDRALS)):
            yield apply_dihedral(question, dihedral), apply_dihedral(answer, dihedral)
