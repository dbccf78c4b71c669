"""Small synthetic tasks, generated from a seed: experiments with parallel branches in minutes.

``sudoku4``, ``sudoku6``: one solution. ``sudoku4-two``, ``sudoku6-two``: exactly two, one of which is the label at
random. ``ambiguous``: one of four dihedral rules transforms a grid. An example starts with the cue token, which names
the rule in half of the examples and hides it in the others, where all four answers are correct. A model with one
answer can only guess among them; one with several branches can represent all four.

Train and test inputs are disjoint. All correct answers of the test split are kept, since a correct one may differ from
the label. Legend: N examples, A answers, L tokens.
"""

import itertools
import pathlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrDataParams, SyntheticTaskName
from pipeline_lib.seeding import child_random
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data import synthetic_sudoku
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet, load_array
from pipeline_lib.systems.prr.data.set_writer import (
    Counts,
    build_folder,
    write_identifiers,
    write_set,
)

ANSWERS_NAME = "answers.npy"
"""uint8 [examples, answers, tokens] of the test split; an extra file, ignored by other readers."""
SIDE = 5
NUM_COLOURS = 10
NUM_RULES = 4
NO_CUE = 1
"""Token of a hidden cue; rule r is ``NO_CUE + 1 + r``. 0 is padding."""
FIRST_COLOUR = NO_CUE + 1 + NUM_RULES
_MAX_DUPLICATES = 1000
"""Consecutive duplicate draws after which a task counts as exhausted."""

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Tokens of one example; the label is one of its correct answers."""

    tokens: Tokens
    label: Tokens
    answers: tuple[Tokens, ...]


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
    rng, seen = child_random(seed, "latent", name, "examples"), set[Tokens]()

    def fresh(versions: int) -> Group:
        """A group without inputs of earlier groups."""
        for _ in range(_MAX_DUPLICATES):
            group = [example for example in draw(rng, versions) if example.tokens not in seen]
            if group:
                seen.update(example.tokens for example in group)
                return group
        raise BadInputError(f"{name}: only {len(seen)} distinct examples; ask for fewer")

    test_groups = [fresh(1) for _ in range(test)]
    train_groups = [fresh(versions) for _ in range(train)]
    answers = [example.answers for group in test_groups for example in group]
    most = max(map(len, answers))
    padded = [[*known, *known[:1] * (most - len(known))] for known in answers]
    return SyntheticTask(
        train=_puzzle_set(train_groups, vocab_size),
        test=_puzzle_set(test_groups, vocab_size),
        answers_NAL=np.array(padded, dtype=np.uint8),
    )


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


def _sudoku(
    shape: synthetic_sudoku.Shape, *, givens: int, num_solutions: int
) -> Callable[[random.Random], tuple[Draw, int]]:
    def example(puzzle: synthetic_sudoku.Puzzle, rng: random.Random) -> Example:
        # Token 0 is padding, so a blank is 1 and digit d is d + 1, as in TRM's Sudoku files.
        answers = tuple(tuple(digit + 1 for digit in cells) for cells in puzzle.solutions)
        tokens = tuple(digit + 1 for digit in puzzle.givens)
        return Example(tokens=tokens, label=rng.choice(answers), answers=answers)

    def draw(rng: random.Random, versions: int) -> Group:
        puzzle = synthetic_sudoku.make_puzzle(
            shape, givens=givens, num_solutions=num_solutions, rng=rng
        )
        others = (synthetic_sudoku.permute_puzzle(puzzle, shape, rng) for _ in range(versions - 1))
        return [example(version, rng) for version in (puzzle, *others)]

    return lambda _rng: (draw, shape.size + 2)


def _ambiguous(rng: random.Random) -> tuple[Draw, int]:
    rules = draw_rules(rng)
    vocab_size = FIRST_COLOUR + NUM_COLOURS
    return lambda rng, versions: [draw_example(rules, rng) for _ in range(versions)], vocab_size


def draw_rules(rng: random.Random) -> list[list[int]]:
    """Four distinct dihedral transforms, each as the source cell of every target cell."""
    square = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    # Clockwise turns of the square, then of its mirror image.
    turns = [np.rot90(one, -turn) for one in (square, square[:, ::-1]) for turn in range(4)]
    return rng.sample([turned.ravel().tolist() for turned in turns], NUM_RULES)


def draw_example(rules: Sequence[Sequence[int]], rng: random.Random) -> Example:
    """A random grid with a random rule; the cue is shown with probability 1/2, and is repeated in the answers."""
    grid = [FIRST_COLOUR + rng.randrange(NUM_COLOURS) for _ in range(SIDE * SIDE)]
    rule = rng.randrange(NUM_RULES)
    shown = rng.random() < 0.5
    cue = NO_CUE + 1 + rule if shown else NO_CUE
    answers = tuple((cue, *(grid[cell] for cell in move)) for move in rules)
    return Example(
        tokens=(cue, *grid),
        label=answers[rule],
        answers=answers[rule : rule + 1] if shown else answers,
    )


_TASKS: dict[SyntheticTaskName, Callable[[random.Random], tuple[Draw, int]]] = {
    "sudoku4": _sudoku(synthetic_sudoku.FOUR, givens=6, num_solutions=1),
    "sudoku4-two": _sudoku(synthetic_sudoku.FOUR, givens=11, num_solutions=2),
    "sudoku6": _sudoku(synthetic_sudoku.SIX, givens=26, num_solutions=1),
    "sudoku6-two": _sudoku(synthetic_sudoku.SIX, givens=28, num_solutions=2),
    "ambiguous": _ambiguous,
}


def build_synthetic(params: PrrDataParams, output: pathlib.Path, *, seed: int) -> Manifest:
    """Generate the task of ``params`` in ``output``, or reuse it.

    Raises:
        BadInputError: the task is a folder or too small, or ``output`` holds other files.
    """
    task = params.task
    if task == "folder":
        raise BadInputError("prr.data.task=folder: nothing to generate; choose a synthetic task")

    def write(folder: pathlib.Path) -> Counts:
        made = make_task(
            task,
            train=params.train_puzzles,
            test=params.test_examples,
            versions=params.versions,
            seed=seed,
        )
        write_set(folder, "train", made.train)
        write_set(folder, "test", made.test)
        write_identifiers(folder, [])
        np.save(folder / "test" / ANSWERS_NAME, made.answers_NAL)
        return {"train": len(made.train.inputs_NL), "test": len(made.test.inputs_NL)}

    options = {**params.model_dump(mode="json"), "seed": seed}
    return build_folder(output, write, module=__name__, options=options, inputs={})


def read_answers(folder: pathlib.Path, data: PuzzleSet) -> npt.NDArray[np.uint8] | None:
    """All correct answers [N, A, L] to the test split ``data`` of ``folder``; None if unknown.

    Raises:
        BadInputError: the file is damaged or has another shape or dtype.
    """
    path = folder / "test" / ANSWERS_NAME
    if not path.is_file():
        return None
    answers_NAL = load_array(path, axes=3)
    shape, (examples, length) = answers_NAL.shape, data.labels_NL.shape
    if shape != (examples, *shape[1:2], length) or answers_NAL.dtype != np.uint8 or not all(shape):
        raise BadInputError(
            f"{path}: {answers_NAL.dtype} of shape {shape}, expected uint8 of shape ({examples}, "
            f"answers, {length}); build the data again"
        )
    return answers_NAL
