"""Small tasks made from a seed, in the files of TRM and HRM: trials of parallel branches in minutes.

``sudoku4``, ``sudoku6``: one solution. ``sudoku4-two``, ``sudoku6-two``: exactly two, the label is one
of them at random. ``ambiguous``: see `synthetic_rules`. No test input is among the training inputs. For the test
split all right answers are known, so that an answer that is right but not the label can be told.
Legend: N examples, A answers, L tokens.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.latent.data import synthetic_rules, synthetic_sudoku
from pipeline_lib.latent.data.dataset_files import PuzzleSet
from pipeline_lib.params.latent import MadeTaskName
from pipeline_lib.seeding import child_random

_PATIENCE = 1000
"""Draws in a row that bring nothing new before a task counts as used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Tokens of one example; the label is one of its right answers."""

    tokens: tuple[int, ...]
    label: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]


Group = Sequence[Example]
"""A puzzle with its versions."""
Draw = Callable[[random.Random, int], Group]
"""Draws a group with so many versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTask:
    """Both splits, and all right answers of the test split."""

    train: PuzzleSet
    test: PuzzleSet
    answers_NAL: npt.NDArray[np.uint8]
    """Of the test split; an example with fewer answers repeats its first."""


def make_task(
    name: MadeTaskName, *, train: int, test: int, versions: int = 1, seed: int
) -> MadeTask:
    """Draw a task with ``train`` groups of ``versions`` examples and ``test`` examples.

    Raises:
        BadInputError: the task has not so many different examples.
    """
    draw, vocab_size = _TASKS[name](child_random(seed, "latent", name, "rules"))
    fresh = _different(name, draw, child_random(seed, "latent", name, "examples"))
    test_groups = [fresh(1) for _ in range(test)]
    train_groups = [fresh(versions) for _ in range(train)]
    examples = [example for group in test_groups for example in group]
    return MadeTask(
        train=_puzzle_set(train_groups, vocab_size),
        test=_puzzle_set(test_groups, vocab_size),
        answers_NAL=_answers(examples),
    )


def _different(name: str, draw: Draw, rng: random.Random) -> Callable[[int], Group]:
    """Draws groups, each without the inputs that any group before had."""
    seen: set[tuple[int, ...]] = set()

    def fresh(versions: int) -> Group:
        for _ in range(_PATIENCE):
            group = [example for example in draw(rng, versions) if example.tokens not in seen]
            if group:
                seen.update(example.tokens for example in group)
                return group
        raise BadInputError(f"{name}: only {len(seen)} different examples; ask for fewer")

    return fresh


def _sudoku(
    shape: synthetic_sudoku.Shape, *, givens: int, num_solutions: int
) -> Callable[[random.Random], tuple[Draw, int]]:
    def example(puzzle: synthetic_sudoku.Puzzle, rng: random.Random) -> Example:
        # Token 0 is padding, so a blank is 1 and digit d is d + 1, as in TRM's own Sudoku files.
        answers = tuple(tuple(digit + 1 for digit in cells) for cells in puzzle.solutions)
        return Example(
            tokens=tuple(digit + 1 for digit in puzzle.givens),
            label=rng.choice(answers),
            answers=answers,
        )

    def draw(rng: random.Random, versions: int) -> Group:
        puzzle = synthetic_sudoku.make_puzzle(
            shape, givens=givens, num_solutions=num_solutions, rng=rng
        )
        others = (synthetic_sudoku.reshaped(puzzle, shape, rng) for _ in range(versions - 1))
        return [example(version, rng) for version in (puzzle, *others)]

    return lambda _rng: (draw, shape.size + 2)


def _ambiguous(rng: random.Random) -> tuple[Draw, int]:
    rules = synthetic_rules.draw_rules(rng)

    def draw(rng: random.Random, versions: int) -> Group:
        drawn = (synthetic_rules.draw_example(rules, rng) for _ in range(versions))
        return [
            Example(
                tokens=ruled.tokens, label=ruled.answers[ruled.rule_answer], answers=ruled.answers
            )
            for ruled in drawn
        ]

    return draw, synthetic_rules.VOCAB_SIZE


_TASKS: dict[MadeTaskName, Callable[[random.Random], tuple[Draw, int]]] = {
    "sudoku4": _sudoku(synthetic_sudoku.FOUR, givens=6, num_solutions=1),
    "sudoku4-two": _sudoku(synthetic_sudoku.FOUR, givens=11, num_solutions=2),
    "sudoku6": _sudoku(synthetic_sudoku.SIX, givens=26, num_solutions=1),
    "sudoku6-two": _sudoku(synthetic_sudoku.SIX, givens=28, num_solutions=2),
    "ambiguous": _ambiguous,
}


def _answers(examples: Sequence[Example]) -> npt.NDArray[np.uint8]:
    most = max(len(example.answers) for example in examples)

    def padded(example: Example) -> Iterator[tuple[int, ...]]:
        yield from example.answers
        for _ in range(most - len(example.answers)):
            yield example.answers[0]

    return np.array([list(padded(example)) for example in examples], dtype=np.uint8)


def _puzzle_set(groups: Sequence[Group], vocab_size: int) -> PuzzleSet:
    examples = [example for group in groups for example in group]
    return PuzzleSet.of(
        inputs_NL=np.array([example.tokens for example in examples], dtype=np.uint8),
        labels_NL=np.array([example.label for example in examples], dtype=np.uint8),
        puzzle_identifiers=[0] * len(examples),
        puzzle_indices=range(len(examples) + 1),
        group_indices=list(itertools.accumulate(map(len, groups), initial=0)),
        vocab_size=vocab_size,
    )
