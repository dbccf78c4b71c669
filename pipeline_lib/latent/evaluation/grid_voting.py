"""From answers to versions of ARC puzzles to ranked answers to the puzzles themselves.

Each answer is cropped, led back by undoing its version's augmentation, and is one vote for a grid.
The grids of a test input are ranked by votes, then by the mean confidence of their voters. What a
model is confident of is the caller's matter. Legend: N examples of a test split, L tokens.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.latent.data.augmentation import Version, version_of
from pipeline_lib.latent.data.dataset_files import PuzzleSet
from pipeline_lib.latent.data.vocabulary import colours_of, crop, grid_of_colours
from pipeline_lib.problems.arc_grids import Challenge

PASS_KS = (1, 2, 5, 10, 100, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one example of a test split asks: a test input, shown in one version of its puzzle."""

    version: Version
    index: int

    @property
    def puzzle_input(self) -> PuzzleInput:
        """The test input in the puzzle as it was published."""
        return PuzzleInput(puzzle_id=self.version.puzzle, index=self.index)

    def answer_in(self, tokens_L: npt.NDArray[np.integer]) -> Grid | None:
        """The answer that output tokens give to the original test input, or None if they hold none."""
        return _led_back(tokens_L, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An answer to a test input with what speaks for it."""

    grid: Grid
    votes: int
    mean_confidence: float


class Tally:
    """The votes for the answers to all test inputs."""

    def __init__(self) -> None:
        self._votes: defaultdict[PuzzleInput, Counter[Grid]] = defaultdict(Counter)
        self._confidence: defaultdict[tuple[PuzzleInput, Grid], float] = defaultdict(float)

    def add(self, asked: Asked, tokens_L: npt.NDArray[np.integer], *, confidence: float) -> None:
        """Count one answer; tokens without a grid are no vote."""
        grid = asked.answer_in(tokens_L)
        if grid is not None:
            self._votes[asked.puzzle_input][grid] += 1
            self._confidence[asked.puzzle_input, grid] += confidence

    def ranked(self, puzzle_input: PuzzleInput) -> list[Candidate]:
        """The answers to a test input, the best first; equal ones in the order of their cells."""
        candidates = [
            Candidate(
                grid=grid,
                votes=votes,
                mean_confidence=self._confidence[puzzle_input, grid] / votes,
            )
            for grid, votes in self._votes.get(puzzle_input, Counter()).items()
        ]
        return sorted(candidates, key=lambda one: (-one.votes, -one.mean_confidence, one.grid))


def asked_by(
    data: PuzzleSet, identifiers: Sequence[str], puzzles: Mapping[str, Challenge]
) -> list[Asked]:
    """What each example of a test split asks, found by its identifier and by its input grid.

    Args:
        data: the test split.
        identifiers: what the puzzle identifiers of the folder stand for.
        puzzles: the original test puzzles.

    Raises:
        BadInputError: an example is no version of any test input; the folder's files do not belong
            together.
    """
    versions: dict[int, Version] = {}
    asked = []
    for number, identifier in enumerate(data.example_identifiers.tolist()):
        if identifier not in versions:
            versions[identifier] = _version(identifier, identifiers)
        version = versions[identifier]
        index = _index_of(_led_back(data.inputs_NL[number], version), puzzles.get(version.puzzle))
        if index is None:
            raise BadInputError(
                f"example {number} of the test split is no version of a test input of "
                f"{version.puzzle!r} in test_puzzles.json; build the data again"
            )
        asked.append(Asked(version=version, index=index))
    return asked


def _version(identifier: int, identifiers: Sequence[str]) -> Version:
    if not 0 < identifier < len(identifiers):
        raise BadInputError(
            f"puzzle identifier {identifier} is none of identifiers.json, which has "
            f"{len(identifiers)}; votes need the puzzles of an ARC folder"
        )
    try:
        return version_of(identifiers[identifier])
    except ValueError as error:
        raise BadInputError(f"identifiers.json: {error}; build the data again") from error


def _led_back(tokens_L: npt.NDArray[np.integer], version: Version) -> Grid | None:
    grid = crop(tokens_L)
    if grid is None:
        return None
    return grid_of_colours(version.augmentation.undo(colours_of(grid)))


def _index_of(grid: Grid | None, puzzle: Challenge | None) -> int | None:
    tests = puzzle.test if puzzle else ()
    return next((index for index, test in enumerate(tests) if test.input == grid), None)


def solutions_of_puzzles(puzzles: Mapping[str, Challenge]) -> dict[str, list[Grid]]:
    """The output grids of the puzzles whose test outputs are all known."""
    outputs = {name: [test.output for test in puzzle.test] for name, puzzle in puzzles.items()}
    return {
        name: [grid for grid in grids if grid is not None]
        for name, grids in outputs.items()
        if None not in grids
    }


def pass_at(
    tally: Tally, solutions: Mapping[str, Sequence[Grid]], ks: Sequence[int] = PASS_KS
) -> dict[int, float]:
    """Share of a puzzle's test inputs that are among the k best ranked answers, mean over puzzles.

    Source: SamsungSAILMontreal/TinyRecursiveModels, ``evaluators/arc.py``; at k = 2 it is the score
    of ARC Prize.

    Raises:
        BadInputError: no solutions.
    """
    if not solutions:
        raise BadInputError("no test outputs are known, so there is no pass@k; score a submission")
    ranks = {
        name: [_rank(tally, PuzzleInput(puzzle_id=name, index=i), g) for i, g in enumerate(grids)]
        for name, grids in solutions.items()
    }
    return {
        k: float(np.mean([np.mean([rank < k for rank in of_one]) for of_one in ranks.values()]))
        for k in ks
    }


def _rank(tally: Tally, puzzle_input: PuzzleInput, solution: Grid) -> float:
    """Place of the solution among the ranked answers, from 0; infinite if nobody gave it."""
    grids = [candidate.grid for candidate in tally.ranked(puzzle_input)]
    return grids.index(solution) if solution in grids else float("inf")
