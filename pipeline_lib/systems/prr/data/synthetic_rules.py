"""The ambiguous-rule task: one of four dihedral rules transforms a grid; a cue may name it.

The four rules are drawn once per task. An example starts with the cue token, which names the rule
in half of the examples and hides it in the others, where all four answers are correct. A model with
one answer can only guess among them; one with several branches can represent all four.
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
class RuleExample:
    """One example: cue and grid, and the answers of all rules compatible with the cue."""

    tokens: Tokens
    answers: tuple[Tokens, ...]
    """Each as long as ``tokens``; the cue is repeated, so every position has a label."""
    rule_answer: int
    """Index in ``answers`` of the sampled rule's answer."""


def draw_rules(rng: random.Random) -> list[list[int]]:
    """Four distinct dihedral transforms, each as the source cell of every target cell."""
    square = [[row * SIDE + column for column in range(SIDE)] for row in range(SIDE)]
    moves = []
    for mirrored in (False, True):
        turned = [line[::-1] for line in square] if mirrored else square
        for _ in range(4):
            moves.append([cell for line in turned for cell in line])
            turned = [list(line) for line in zip(*turned[::-1], strict=True)]
    return rng.sample(moves, NUM_RULES)


def draw_example(rules: Sequence[Sequence[int]], rng: random.Random) -> RuleExample:
    """A random grid with a random rule; the cue is shown with probability 1/2."""
    grid = [FIRST_COLOUR + rng.randrange(NUM_COLOURS) for _ in range(SIDE * SIDE)]
    rule = rng.randrange(NUM_RULES)
    shown = rng.random() < 0.5
    cue = NO_CUE + 1 + rule if shown else NO_CUE
    answers = [(cue, *(grid[cell] for cell in move)) for move in rules]
    return RuleExample(
        tokens=(cue, *grid),
        answers=(answers[rule],) if shown else tuple(answers),
        rule_answer=0 if shown else rule,
    )
