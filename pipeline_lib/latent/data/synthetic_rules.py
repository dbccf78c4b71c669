"""The ambiguous rule: a grid is turned or mirrored in one of four ways, and only a cue says which.

The four rules are drawn once per task. An example begins with a cue token; half of the examples
show the rule there, the others show that there is no cue, and then four answers are equally right.
A model that keeps one answer can only guess among them; one with several branches can hold all four.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

SIDE = 5
NUM_COLOURS = 10
NUM_RULES = 4
NO_CUE = 1
"""Token of a hidden cue; rule r is ``NO_CUE + 1 + r``. 0 is padding."""
FIRST_COLOUR = NO_CUE + 1 + NUM_RULES
VOCAB_SIZE = FIRST_COLOUR + NUM_COLOURS

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledGrid:
    """One example: the cue and the grid, and the answer of every rule that the cue leaves open."""

    tokens: Tokens
    answers: tuple[Tokens, ...]
    """Each as long as ``tokens``; at the cue it repeats it, so that every position is asked."""
    rule_answer: int
    """Which of the answers is that of the rule drawn."""


def draw_rules(rng: random.Random) -> list[list[int]]:
    """Four different dihedral moves of the square; each gives the source cell of every target cell."""
    square = [[row * SIDE + column for column in range(SIDE)] for row in range(SIDE)]
    moves = []
    for mirrored in (False, True):
        turned = [line[::-1] for line in square] if mirrored else square
        for _ in range(4):
            moves.append([cell for line in turned for cell in line])
            turned = [list(line) for line in zip(*turned[::-1], strict=True)]
    return rng.sample(moves, NUM_RULES)


def draw_example(rules: Sequence[Sequence[int]], rng: random.Random) -> RuledGrid:
    """A random grid with a random rule, whose cue is shown half of the time."""
    grid = [FIRST_COLOUR + rng.randrange(NUM_COLOURS) for _ in range(SIDE * SIDE)]
    rule = rng.randrange(NUM_RULES)
    shown = rng.random() < 0.5
    cue = NO_CUE + 1 + rule if shown else NO_CUE
    answers = [(cue, *(grid[cell] for cell in move)) for move in rules]
    return RuledGrid(
        tokens=(cue, *grid),
        answers=(answers[rule],) if shown else tuple(answers),
        rule_answer=0 if shown else rule,
    )
