"""Ids of ARC problems."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import PuzzleInput, puzzle_input_of


@pytest.mark.parametrize("puzzle_id", ["0a1d4ef5", "Copy1", "a/b"])
def test_ids_name_puzzle_and_test_input(puzzle_id: str):
    """A problem's id says which test input of which puzzle it asks about."""
    asked = PuzzleInput(puzzle_id=puzzle_id, index=12)
    assert puzzle_input_of(asked.problem_id) == asked


@pytest.mark.parametrize(
    "problem_id", ["gsm8k-test-0", "/0", "0a1d4ef5/", "0a1d4ef5/x", "a/-1", ""]
)
def test_other_ids_are_refused(problem_id: str):
    """An id of another data set names no test input."""
    with pytest.raises(BadInputError, match="is no id of an ARC problem"):
        puzzle_input_of(problem_id)
