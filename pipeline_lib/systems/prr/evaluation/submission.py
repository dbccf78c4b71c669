"""Submissions to ARC Prize: the two top-ranked grids for every test input, and their score."""

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid
from pipeline_lib.kinds.arc import PuzzleInput
from pipeline_lib.problems.arc_grids import Challenge
from pipeline_lib.problems.arc_submission import (
    ATTEMPTS,
    Attempts,
    ReadSubmission,
    read_submission,
)
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.study.arc_score import ArcScore, score_submission
from pipeline_lib.systems.prr.evaluation.grid_voting import GridVotes, known_solutions

NO_ANSWER: Grid = ((0, 0), (0, 0))
"""Placeholder of the competition's sample file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Content of ``submission.json``."""

    attempts: Mapping[str, list[Attempts]]
    """By puzzle id, one entry per test input in order."""
    unanswered: tuple[PuzzleInput, ...]
    """Test inputs without any vote; they get `NO_ANSWER`."""


def submission_of_votes(tally: GridVotes, puzzles: Mapping[str, Challenge]) -> Submission:
    """Two attempts for every test input of ``puzzles``; a single candidate is repeated."""
    unanswered: list[PuzzleInput] = []

    def attempts(puzzle_input: PuzzleInput) -> Attempts:
        grids = [candidate.grid for candidate in tally.rank(puzzle_input)]
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


def score_known_puzzles(
    submission: Submission, puzzles: Mapping[str, Challenge]
) -> ArcScore | None:
    """Score the puzzles whose test outputs are all known; None if there are none."""
    solutions = known_solutions(puzzles)
    if not solutions:
        return None
    return score_submission({name: submission.attempts[name] for name in solutions}, solutions)


def write_submission(
    path: pathlib.Path, submission: Submission, puzzles: Mapping[str, Challenge]
) -> None:
    """Write ``submission.json`` and validate the written file."""
    write_json(path, submission.attempts)
    check_submission(path, puzzles)


def check_submission(path: pathlib.Path, puzzles: Mapping[str, Challenge]) -> ReadSubmission:
    """Read a submission file and check that it is complete.

    Raises:
        BadInputError: it is not a submission for exactly these puzzles, or an attempt is not a
        grid;
            the message names the file and the first violation.
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
