"""The format of a submission to ARC Prize: two attempts at every test input.

``submission.json`` maps the id of a puzzle to a list with an entry per test input,
``{"attempt_1": grid, "attempt_2": grid}``. Scoring is in `evaluation.arc_score`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import Grid, grid_of

ATTEMPTS = ("attempt_1", "attempt_2")
Attempts = dict[str, list[list[int]]]
"""Both attempts at one test input by name, as JSON values."""
ReadAttempts = list[list[Grid | None]]
"""Both attempts at each test input of a puzzle; None: not a grid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSubmission:
    """A submission that matches the puzzles it was read for."""

    attempts: Mapping[str, ReadAttempts]
    """Attempts by puzzle."""
    missing: tuple[str, ...]
    """Puzzles without any attempt."""

    @property
    def num_not_grids(self) -> int:
        """Number of attempts that are not grids."""
        return sum(
            grid is None for of_one in self.attempts.values() for both in of_one for grid in both
        )


def read_submission(submission: Any, num_inputs: Mapping[str, int]) -> ReadSubmission:
    """Validate a submission that was parsed from JSON.

    Args:
        submission: any JSON value.
        num_inputs: number of test inputs of every puzzle.

    Raises:
        BadInputError: it has an unknown puzzle, a wrong number of test inputs, or an entry without
            both attempts.
    """
    if not isinstance(submission, Mapping):
        raise BadInputError(
            f"a submission is an object of puzzles, not {type(submission).__name__}; "
            'expected {"PUZZLE": [{"attempt_1": GRID, "attempt_2": GRID}]}'
        )
    if unknown := sorted(submission.keys() - num_inputs.keys()):
        raise BadInputError(
            f"{len(unknown)} puzzles of the submission have no solution (first: {unknown[0]!r}); "
            "score it against the set that it was made for"
        )
    return ReadSubmission(
        attempts={
            puzzle_id: _attempts(puzzle_id, entries, num_inputs=num_inputs[puzzle_id])
            for puzzle_id, entries in submission.items()
        },
        missing=tuple(sorted(num_inputs.keys() - submission.keys())),
    )


def _attempts(puzzle_id: str, entries: Any, *, num_inputs: int) -> ReadAttempts:
    if not isinstance(entries, list | tuple):
        raise BadInputError(
            f"puzzle {puzzle_id!r}: expected a list, one entry per test input, "
            f"not {type(entries).__name__}"
        )
    if len(entries) != num_inputs:
        raise BadInputError(
            f"puzzle {puzzle_id!r}: {len(entries)} entries for {num_inputs} test inputs; "
            "give one for each"
        )
    return [
        _both(entry, f"puzzle {puzzle_id!r}, test input {n}") for n, entry in enumerate(entries)
    ]


def _both(entry: Any, where: str) -> list[Grid | None]:
    if not isinstance(entry, Mapping) or set(entry) != set(ATTEMPTS):
        given = ", ".join(map(repr, entry)) if isinstance(entry, Mapping) else type(entry).__name__
        raise BadInputError(f"{where}: {given or 'nothing'}; expected {' and '.join(ATTEMPTS)}")
    return [_grid(entry[name]) for name in ATTEMPTS]


def _grid(value: Any) -> Grid | None:
    try:
        return grid_of(value)
    except ValueError:
        return None
