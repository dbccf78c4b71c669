"""Mazes from the CSV files of Maze-Hard: squares of ``#`` wall, blank, ``S``tart, ``G``oal, ``o`` path.

Tokens are 1 to 5 in this order. The answer is the question with a path drawn into it.
"""

import math
from collections.abc import Iterator

import numpy as np

from pipeline_lib.latent.data.augmentation import NUM_DIHEDRALS, turned
from pipeline_lib.latent.data.board_builder import Solved
from pipeline_lib.latent.data.csv_boards import Board

CHARACTERS = "# SGo"
_TOKENS = np.zeros(256, dtype=np.uint8)
_TOKENS[list(CHARACTERS.encode())] = np.arange(1, len(CHARACTERS) + 1)
_WALL, _START, _GOAL, _PATH = (CHARACTERS.index(character) + 1 for character in "#SGo")


class Maze:
    """Reads and checks mazes; its versions are their turned and mirrored images."""

    vocab_size = len(CHARACTERS) + 1

    def cells(self, board: Board) -> Solved:
        """Tokens.

        Raises:
            BadInputError: the maze is no square of the five characters with one start and one goal,
                or the answer does more than to draw a path around the walls.
        """
        side = math.isqrt(len(board.question))
        question, answer = (_TOKENS[square] for square in board.squares(side))
        if not (question.all() and answer.all()) or (question == _PATH).any():
            raise board.error(f"cells are {CHARACTERS!r}, and the path (o) is in the answer only")
        if (question == _START).sum() != 1 or (question == _GOAL).sum() != 1:
            raise board.error("a maze has one start (S) and one goal (G)")
        changed = question != answer
        # Whether the path covers its two ends is the publisher's choice.
        if (question[changed] == _WALL).any() or (answer[changed] != _PATH).any():
            raise board.error("the answer differs from the question in more than its path")
        return question, answer

    def versions(self, solved: Solved, num_aug: int, rng: np.random.Generator) -> Iterator[Solved]:
        """The first ``num_aug`` of the seven other symmetries of the square."""
        del rng  # there are so few that none is drawn
        question, answer = solved
        for dihedral in range(1, min(num_aug + 1, NUM_DIHEDRALS)):
            yield turned(question, dihedral), turned(answer, dihedral)
