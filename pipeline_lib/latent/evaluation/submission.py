"""The two best ranked answers to every test input, as ARC Prize wants them."""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.latent.evaluation.grid_voting import Tally
from pipeline_lib.problems.arc_grids import Challenge
from pipeline_lib.problems.arc_submission import (
    ATTEMPTS,
    Attempts,
    ReadSubmission,
    read_submission,
)
from pipeline_lib.storage.files import read_json, write_json

NO_ANSWER: Grid = ((0, 0), (0, 0))
"""What the competition's own sample file holds where there is nothing to hand in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What goes into ``submission.json``."""

    attempts: Mapping[str, list[Attempts]]
    """By puzzle, one entry for each test input in order."""
    unanswered: tuple[PuzzleInput, ...]
    """Test inputs for which no answer held a grid; they have the sample file's grid."""


def submission_of_votes(tally: Tally, puzzles: Mapping[str, Challenge]) -> Submission:
    """Two attempts at every test input of ``puzzles``; a lone answer is handed in twice."""
    unanswered: list[PuzzleInput] = []

    def attempts(puzzle_input: PuzzleInput) -> Attempts:
        grids = [candidate.grid for candidate in tally.ranked(puzzle_input)]
        if not grids:
            unanswered.append(puzzle_input)
        chosen = (grids or [NO_ANSWER])[: len(ATTEMPTS)]
        chosen += chosen * (len(ATTEMPTS) - len(chosen))
        return {
            name: [list(row) for row in grid] for name, grid in zip(ATTEMPTS, chosen, strict=True)
        }

    by_puzzle = {
        name: [attempts(PuzzleInput(puzzle_id=name, index=i)) for i in range(len(puzzle.test))]
        for name, puzzle in puzzles.items()
    }
    return Submission(attempts=by_puzzle, unanswered=tuple(unanswered))


def write_submission(
    path: pathlib.Path, submission: Submission, puzzles: Mapping[str, Challenge]
) -> None:
    """Write ``submission.json``, then check the file as a judge would read it."""
    write_json(path, submission.attempts)
    check_submission(path, puzzles)


def check_submission(path: pathlib.Path, puzzles: Mapping[str, Challenge]) -> ReadSubmission:
    """Read a submission file and make sure that it is complete.

    Raises:
        BadInputError: it is no submission for exactly these puzzles, or an attempt is no grid; one
            line names the file and the first thing that is wrong.
    """
    num_inputs = {name: len(puzzle.test) for name, puzzle in puzzles.items()}
    try:
        read = read_submission(read_json(path), num_inputs)
    except BadInputError as error:
        raise BadInputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    if read.missing:
        raise BadInputError(
            f"{path}: {len(read.missing)} of {len(puzzles)} puzzles are missing (first: "
            f"{read.missing[0]!r}); write it again"
        )
    if read.num_not_grids:
        raise BadInputError(
            f"{path}: {read.num_not_grids} attempts are no grids of colours 0 to 9 with sides of 1 "
            "to 30; write it again"
        )
    return read
