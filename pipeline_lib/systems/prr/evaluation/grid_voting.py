"""Pools predictions over augmented versions of ARC puzzles by voting.

Each prediction is cropped, mapped back by inverting its version's augmentation, and counts as one
vote for a grid. The grids of a test input are ranked by votes, then by mean confidence. The caller
defines the confidence.

Legend: N examples of a test split, L tokens.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.problems.arc_grids import Challenge
from pipeline_lib.systems.prr.data.augmentation import Version, parse_version
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.data.vocabulary import array_to_grid, crop, grid_to_array

PASS_KS = (1, 2, 5, 10, 100, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedInput:
    """The test input behind an example of the test split, and the version that shows it."""

    version: Version
    index: int

    @property
    def puzzle_input(self) -> PuzzleInput:
        """The test input in the original puzzle."""
        return PuzzleInput(puzzle_id=self.version.puzzle, index=self.index)

    def restore_grid(self, tokens_L: npt.NDArray[np.integer]) -> Grid | None:
        """Map output tokens to a grid for the original test input; None if they hold no grid."""
        return _restore_grid(tokens_L, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedGrid:
    """A grid for a test input with its support."""

    grid: Grid
    votes: int
    mean_confidence: float


class GridVotes:
    """Votes for grids, by test input."""

    def __init__(self) -> None:
        self._votes: defaultdict[PuzzleInput, Counter[Grid]] = defaultdict(Counter)
        self._confidence: defaultdict[tuple[PuzzleInput, Grid], float] = defaultdict(float)

    def add(
        self, asked: VersionedInput, tokens_L: npt.NDArray[np.integer], *, confidence: float
    ) -> None:
        """Count one prediction; tokens without a grid are not a vote."""
        grid = asked.restore_grid(tokens_L)
        if grid is not None:
            self._votes[asked.puzzle_input][grid] += 1
            self._confidence[asked.puzzle_input, grid] += confidence

    def rank(self, puzzle_input: PuzzleInput) -> list[RankedGrid]:
        """Grids for a test input by votes, mean confidence, then cell order."""
        candidates = [
            RankedGrid(
                grid=grid,
                votes=votes,
                mean_confidence=self._confidence[puzzle_input, grid] / votes,
            )
            for grid, votes in self._votes.get(puzzle_input, Counter()).items()
        ]
        return sorted(candidates, key=lambda one: (-one.votes, -one.mean_confidence, one.grid))


def resolve_inputs(
    data: PuzzleSet, identifiers: Sequence[str], puzzles: Mapping[str, Challenge]
) -> list[VersionedInput]:
    """The test input of each example, resolved by its identifier and input grid.

    Args:
        data: the test split.
        identifiers: names of the folder's puzzle identifiers.
        puzzles: the original test puzzles.

    Raises:
        BadInputError: an example is not a version of any test input; the folder's files are
            inconsistent.
    """
    versions: dict[int, Version] = {}
    asked = []
    for number, identifier in enumerate(data.example_identifiers.tolist()):
        if identifier not in versions:
            versions[identifier] = _version(identifier, identifiers)
        version = versions[identifier]
        index = _index_of(
            _restore_grid(data.inputs_NL[number], version), puzzles.get(version.puzzle)
        )
        if index is None:
            raise BadInputError(
                f"example {number} of the test split is not a version of a test input of "
                f"{version.puzzle!r} in test_puzzles.json; build the data again"
            )
        asked.append(VersionedInput(version=version, index=index))
    return asked


def _version(identifier: int, identifiers: Sequence[str]) -> Version:
    if not 0 < identifier < len(identifiers):
        raise BadInputError(
            f"puzzle identifier {identifier} is not in identifiers.json, which has "
            f"{len(identifiers)}; votes need the puzzles of an ARC folder"
        )
    try:
        return parse_version(identifiers[identifier])
    except ValueError as error:
        raise BadInputError(f"identifiers.json: {error}; build the data again") from error


def _restore_grid(tokens_L: npt.NDArray[np.integer], version: Version) -> Grid | None:
    grid = crop(tokens_L)
    if grid is None:
        return None
    return array_to_grid(version.augmentation.undo(grid_to_array(grid)))


def _index_of(grid: Grid | None, puzzle: Challenge | None) -> int | None:
    tests = puzzle.test if puzzle else ()
    return next((index for index, test in enumerate(tests) if test.input == grid), None)


def known_solutions(puzzles: Mapping[str, Challenge]) -> dict[str, list[Grid]]:
    """Output grids of the puzzles whose test outputs are all known."""
    outputs = {name: [test.output for test in puzzle.test] for name, puzzle in puzzles.items()}
    return {
        name: [grid for grid in grids if grid is not None]
        for name, grids in outputs.items()
        if None not in grids
    }


def ranked_pass_at_k(
    tally: GridVotes, solutions: Mapping[str, Sequence[Grid]], ks: Sequence[int] = PASS_KS
) -> dict[int, float]:
    """Share of test inputs solved by the k top-ranked grids, mean per puzzle, then over puzzles.

    Source: SamsungSAILMontreal/TinyRecursiveModels, ``evaluators/arc.py``; k = 2 is the score
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


def _rank(tally: GridVotes, puzzle_input: PuzzleInput, solution: Grid) -> float:
    """Rank of the solution from 0; infinite if it has no vote."""
    grids = [candidate.grid for candidate in tally.rank(puzzle_input)]
    return grids.index(solution) if solution in grids else float("inf")
