"""Small synthetic tasks, generated from a seed: experiments with parallel branches in minutes.

``sudoku4``, ``sudoku6``: one solution. ``sudoku4-two``, ``sudoku6-two``: exactly two, one of which
is the label at random. ``ambiguous``: see `synthetic_rules`. Train and test inputs are disjoint.
All correct answers of the test split are kept, since a correct one may differ from the label.
Legend: N examples, A answers, L tokens.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import SyntheticTaskName
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.prr.data import synthetic_rules, synthetic_sudoku
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet

_MAX_DUPLICATES = 1000
"""Consecutive duplicate draws after which a task counts as exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Tokens of one example; the label is one of its correct answers."""

    tokens: tuple[int, ...]
    label: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]


Group = Sequence[Example]
"""A puzzle with its versions."""
Draw = Callable[[random.Random, int], Group]
"""Draws a group with the given number of versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTask:
    """Both splits, and all correct answers of the test split."""

    train: PuzzleSet
    test: PuzzleSet
    answers_NAL: npt.NDArray[np.uint8]
    """Of the test split; shorter answer lists are padded with their first answer."""


def make_task(
    name: SyntheticTaskName, *, train: int, test: int, versions: int = 1, seed: int
) -> SyntheticTask:
    """Draw a task with ``train`` groups of ``versions`` examples and ``test`` examples.

    Raises:
        BadInputError: the task has too few distinct examples.
    """
    draw, vocab_size = _TASKS[name](child_random(seed, "latent", name, "rules"))
    fresh = _distinct_groups(name, draw, child_random(seed, "latent", name, "examples"))
    test_groups = [fresh(1) for _ in range(test)]
    train_groups = [fresh(versions) for _ in range(train)]
    examples = [example for group in test_groups for example in group]
    return SyntheticTask(
        train=_puzzle_set(train_groups, vocab_size),
        test=_puzzle_set(test_groups, vocab_size),
        answers_NAL=_stack_answers(examples),
    )


def _distinct_groups(name: str, draw: Draw, rng: random.Random) -> Callable[[int], Group]:
    """A generator of groups without inputs of earlier groups."""
    seen: set[tuple[int, ...]] = set()

    def fresh(versions: int) -> Group:
        for _ in range(_MAX_DUPLICATES):
            group = [example for example in draw(rng, versions) if example.tokens not in seen]
            if group:
                seen.update(example.tokens for example in group)
                return group
        raise BadInputError(f"{name}: only {len(seen)} distinct examples; ask for fewer")

    return fresh


def _sudoku(
    shape: synthetic_sudoku.Shape, *, givens: int, num_solutions: int
) -> Callable[[random.Random], tuple[Draw, int]]:
    def example(puzzle: synthetic_sudoku.Puzzle, rng: random.Random) -> Example:
        # Token 0 is padding, so a blank is 1 and digit d is d + 1, as in TRM's Sudoku files.
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
        others = (synthetic_sudoku.permute_puzzle(puzzle, shape, rng) for _ in range(versions - 1))
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


_TASKS: dict[SyntheticTaskName, Callable[[random.Random], tuple[Draw, int]]] = {
    "sudoku4": _sudoku(synthetic_sudoku.FOUR, givens=6, num_solutions=1),
    "sudoku4-two": _sudoku(synthetic_sudoku.FOUR, givens=11, num_solutions=2),
    "sudoku6": _sudoku(synthetic_sudoku.SIX, givens=26, num_solutions=1),
    "sudoku6-two": _sudoku(synthetic_sudoku.SIX, givens=28, num_solutions=2),
    "ambiguous": _ambiguous,
}


def _stack_answers(examples: Sequence[Example]) -> npt.NDArray[np.uint8]:
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
