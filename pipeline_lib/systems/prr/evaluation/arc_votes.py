"""ARC: predictions for all versions of a puzzle vote; the two top-ranked grids are submitted.

Each prediction is cropped, mapped back by inverting its version's augmentation, and counts as one vote for a grid. The
grids of a test input are ranked by votes, then by mean confidence. Three tallies are kept: one vote per branch (all), or
one per version, by its branch with the highest score (scorer) or confidence.

Legend: N examples of a test split, L tokens, B rows, K branches.
"""

import pathlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.grids import Grid
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.problems.arc_grids import Challenge
from pipeline_lib.store.files import write_json
from pipeline_lib.study.arc_score import arc_prize_score
from pipeline_lib.systems.prr.data.dataset_files import (
    PuzzleSet,
    read_identifiers,
    read_test_puzzles,
)
from pipeline_lib.systems.prr.data.grids import (
    Augmentation,
    array_to_grid,
    crop,
    grid_to_array,
    parse_version,
)
from pipeline_lib.systems.prr.evaluation.answers import BranchIndices
from pipeline_lib.systems.prr.evaluation.evaluate import PredictedBatch

Voters = Literal["all", "scorer", "confidence"]
Attempts = dict[str, list[list[int]]]
"""Two attempts at one test input by name, ``attempt_1`` and ``attempt_2``, as JSON values."""
PASS_KS = (1, 2, 5, 10, 100, 1000)
NO_ANSWER: Grid = ((0, 0), (0, 0))
"""Placeholder of the competition's sample file."""


class GridVotes:
    """Votes for grids, by test input."""

    def __init__(self) -> None:
        self._votes: defaultdict[PuzzleInput, Counter[Grid]] = defaultdict(Counter)
        self._confidence: defaultdict[tuple[PuzzleInput, Grid], float] = defaultdict(float)

    def add(self, asked: PuzzleInput, grid: Grid, *, confidence: float) -> None:
        """Count one prediction."""
        self._votes[asked][grid] += 1
        self._confidence[asked, grid] += confidence

    def rank(self, asked: PuzzleInput) -> list[Grid]:
        """Grids for a test input by votes, mean confidence, then cell order."""
        votes = self._votes.get(asked, Counter())
        return sorted(
            votes, key=lambda one: (-votes[one], -self._confidence[asked, one] / votes[one], one)
        )


class ArcVotes:
    """Votes of one model, or of several added in turn."""

    def __init__(self, folder: pathlib.Path, data: PuzzleSet) -> None:
        self._puzzles = read_test_puzzles(folder)
        self._asked_N = resolve_inputs(data, read_identifiers(folder), self._puzzles)
        self._tallies: dict[Voters, GridVotes] = {name: GridVotes() for name in get_args(Voters)}

    def add(self, part: PredictedBatch) -> None:
        """Count the answers of a batch; answers without a grid are neither votes nor picks."""
        confidences_BK = part.answers.confidences_BK
        scores_BK = np.where(np.isfinite(confidences_BK), part.answers.scores_BK, -np.inf)
        picked: dict[Voters, BranchIndices] = {
            "scorer": scores_BK.argmax(1),
            "confidence": confidences_BK.argmax(1),
        }
        for row, (asked, version) in enumerate(self._asked_N[part.start : part.stop]):
            for branch in np.flatnonzero(np.isfinite(confidences_BK[row])).tolist():
                grid = restore_grid(part.answers.tokens_BKL[row, branch], version)
                if grid is None:
                    continue
                confidence = float(confidences_BK[row, branch])
                for voters, tally in self._tallies.items():
                    if voters == "all" or branch == picked[voters][row]:
                        tally.add(asked, grid, confidence=confidence)

    def metrics(self) -> dict[str, Any]:
        """pass@k of each tally over the puzzles with known test outputs, if there are any."""
        solutions = known_solutions(self._puzzles)
        figures: dict[str, Any] = {
            "test puzzles": len(self._puzzles),
            "scored puzzles": len(solutions),
        }
        for voters, tally in self._tallies.items() if solutions else ():
            shares = ranked_pass_at_k(tally, solutions)
            figures[voters] = {f"pass@{k}": share for k, share in shares.items()}
        return figures

    def submit(self, path: pathlib.Path, *, voters: Voters) -> dict[str, Any]:
        """Write ``submission.json``; returns its metrics.

        The ARC Prize score is the mean over puzzles of the share of test inputs solved by one of two attempts. It is
        present if test outputs are known.
        """
        submission, unanswered = submission_of_votes(self._tallies[voters], self._puzzles)
        write_json(path, submission)
        metrics: dict[str, Any] = {"unanswered test inputs": len(unanswered)}
        if solutions := known_solutions(self._puzzles):
            solved = solved_inputs(submission, solutions)
            inputs = [one for puzzle in solved.values() for one in puzzle]
            metrics["submission"] = {
                "ARC Prize score": arc_prize_score(solved),
                "test inputs solved": sum(inputs) / len(inputs),
                "puzzles solved": sum(map(all, solved.values())) / len(solved),
            }
        return metrics


def resolve_inputs(
    data: PuzzleSet, identifiers: Sequence[str], puzzles: Mapping[str, Challenge]
) -> list[tuple[PuzzleInput, Augmentation]]:
    """The test input of each example, by its identifier and input grid, and the version that shows it.

    ``identifiers`` are the names of the folder's puzzle identifiers, ``puzzles`` the original test puzzles.

    Raises:
        BadInputError: an example is not a version of any test input; the folder's files are inconsistent.
    """
    numbers_N = data.example_identifiers.tolist()
    versions = {number: _version(number, identifiers) for number in dict.fromkeys(numbers_N)}
    asked = []
    for place, number in enumerate(numbers_N):
        name, version = versions[number]
        grid = restore_grid(data.inputs_NL[place], version)
        tests = puzzles[name].test if name in puzzles else ()
        index = next((index for index, test in enumerate(tests) if test.input == grid), None)
        if index is None:
            raise BadInputError(
                f"example {place} of the test split is not a version of a test input of "
                f"{name!r} in test_puzzles.json; build the data again"
            )
        asked.append((PuzzleInput(puzzle_id=name, index=index), version))
    return asked


def _version(number: int, identifiers: Sequence[str]) -> tuple[str, Augmentation]:
    if not 0 < number < len(identifiers):
        raise BadInputError(
            f"puzzle identifier {number} is not in identifiers.json, which has "
            f"{len(identifiers)}; votes need the puzzles of an ARC folder"
        )
    with errors_at("identifiers.json", ValueError, remedy="build the data again"):
        return parse_version(identifiers[number])


def restore_grid(tokens_L: npt.NDArray[np.integer], version: Augmentation) -> Grid | None:
    """The grid of the original puzzle that a version shows as these tokens; None if they hold no grid."""
    grid = crop(tokens_L)
    return None if grid is None else array_to_grid(version.undo(grid_to_array(grid)))


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

    There is at least one puzzle. Source: SamsungSAILMontreal/TinyRecursiveModels, ``evaluators/arc.py``; k = 2 is the
    score of ARC Prize.
    """
    ranks = {
        name: [_rank(tally, PuzzleInput(puzzle_id=name, index=i), g) for i, g in enumerate(grids)]
        for name, grids in solutions.items()
    }
    return {
        k: float(np.mean([np.mean([rank < k for rank in of_one]) for of_one in ranks.values()]))
        for k in ks
    }


def _rank(tally: GridVotes, asked: PuzzleInput, solution: Grid) -> float:
    """Rank of the solution from 0; infinite if it has no vote."""
    grids = tally.rank(asked)
    return grids.index(solution) if solution in grids else float("inf")


def submission_of_votes(
    tally: GridVotes, puzzles: Mapping[str, Challenge]
) -> tuple[dict[str, list[Attempts]], list[PuzzleInput]]:
    """Two attempts for every test input, by puzzle; and the inputs without any vote, which get `NO_ANSWER`.

    A single candidate is repeated.
    """
    unanswered: list[PuzzleInput] = []

    def attempts(asked: PuzzleInput) -> Attempts:
        grids = tally.rank(asked)
        if not grids:
            unanswered.append(asked)
        first, *others = grids or [NO_ANSWER]
        chosen = (first, others[0] if others else first)
        return {
            f"attempt_{number}": [list(row) for row in grid]
            for number, grid in enumerate(chosen, start=1)
        }

    submission = {
        name: [attempts(PuzzleInput(puzzle_id=name, index=i)) for i in range(len(puzzle.test))]
        for name, puzzle in puzzles.items()
    }
    return submission, unanswered


def solved_inputs(
    submission: Mapping[str, Sequence[Attempts]], solutions: Mapping[str, Sequence[Grid]]
) -> dict[str, list[bool]]:
    """For each puzzle with a solution, and each of its test inputs: whether an attempt is the output grid."""
    return {
        name: [
            [list(row) for row in grid] in attempts.values()
            for grid, attempts in zip(grids, submission[name], strict=True)
        ]
        for name, grids in solutions.items()
    }
