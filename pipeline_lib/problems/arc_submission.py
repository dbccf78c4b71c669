"""The format of a submission to ARC Prize: two attempts at every test input.

``submission.json`` maps the id of a puzzle to a list with an entry per test input,
``{"attempt_1": grid, "attempt_2": grid}``. Scoring is in `evaluation.arc_score`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, first_fault
from pipeline_lib.grids import Grid, grid_of

ATTEMPTS = ("attempt_1", "attempt_2")
Attempts = dict[str, list[list[int]]]
"""Both attempts at one test input by name, as JSON values."""


def _grid(value: Any) -> Grid | None:
    try:
        return grid_of(value)
    except ValueError:
        return None


_Attempt = Annotated[Grid | None, BeforeValidator(_grid)]


class _Entry(BaseModel, extra="forbid"):
    attempt_1: _Attempt
    attempt_2: _Attempt


_SUBMISSION = TypeAdapter(dict[str, list[_Entry]])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSubmission:
    """A submission that matches the puzzles it was read for."""

    attempts: Mapping[str, list[list[Grid | None]]]
    """Both attempts at each test input, by puzzle; None: not a grid."""
    missing: tuple[str, ...]
    """Puzzles without any attempt."""

    @property
    def num_not_grids(self) -> int:
        """Number of attempts that are not grids."""
        return sum(both.count(None) for puzzle in self.attempts.values() for both in puzzle)


def read_submission(submission: Any, num_inputs: Mapping[str, int]) -> ReadSubmission:
    """Validate a submission that was parsed from JSON, for the number of test inputs of every puzzle.

    Raises:
        BadInputError: it has an unknown puzzle, a wrong number of test inputs, or an entry without
            both attempts.
    """
    try:
        read = _SUBMISSION.validate_python(submission)
    except ValidationError as error:
        raise BadInputError(
            f'a submission is {{"PUZZLE": [{{"attempt_1": GRID, "attempt_2": GRID}}]}}: {first_fault(error)}'
        ) from None
    if unknown := sorted(read.keys() - num_inputs.keys()):
        raise BadInputError(
            f"{len(unknown)} puzzles of the submission have no solution (first: {unknown[0]!r}); "
            "score it against the set that it was made for"
        )
    for puzzle_id, entries in read.items():
        if len(entries) != num_inputs[puzzle_id]:
            raise BadInputError(
                f"puzzle {puzzle_id!r}: {len(entries)} entries for {num_inputs[puzzle_id]} test inputs; "
                "give one for each"
            )
    return ReadSubmission(
        attempts={
            puzzle_id: [[one.attempt_1, one.attempt_2] for one in entries]
            for puzzle_id, entries in read.items()
        },
        missing=tuple(sorted(num_inputs.keys() - read.keys())),
    )
