"""Grids: validation, and text forms."""

import json
import re

import pytest
from hypothesis import given

from pipeline_lib.grids import grid_json, grid_of, grid_text
from tests.unit.synthetic_grids import grids


@given(grids())
def test_lists_of_a_grid_are_that_grid(grid):
    """A grid is restored from its canonical text and from its lines."""
    assert grid_of(json.loads(grid_json(grid))) == grid
    lines = grid_text(grid).split("\n")
    assert grid_of([[int(cell) for cell in line.split()] for line in lines]) == grid


@given(grids(), grids())
def test_the_canonical_text_tells_grids_apart(first, second):
    """Different grids have different texts, even without white space."""
    assert (grid_json(first) == grid_json(second)) is (first == second)
    assert "".join(grid_json(first).split()) == grid_json(first)


def test_forms():
    """2 by 3: two lines of three."""
    grid = ((1, 2, 3), (4, 5, 6))
    assert grid_text(grid) == "1 2 3\n4 5 6"
    assert grid_json(grid) == "[[1,2,3],[4,5,6]]"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([], "a grid has 0 entries; 1 to 30 are possible"),
        ([[]], "row 1 has 0 entries"),
        ([[0]] * 31, "a grid has 31 entries"),
        ([[0] * 31], "row 1 has 31 entries"),
        ([[1, 2], [3]], "row 2 has 1 cells, row 1 has 2"),
        ([[1, 10]], "row 1 holds 10; colours are 0 to 9"),
        ([[-1]], "row 1 holds -1"),
        ([[1.0]], "row 1 holds 1.0"),
        ([[True]], "row 1 holds True"),
        ([["1"]], "row 1 holds '1'"),
        ([[None]], "row 1 holds None"),
        (["12", "34"], "row 1 is a list, not str"),
        ("12", "a grid is a list, not str"),
        (None, "a grid is a list, not NoneType"),
        ({"0": [1]}, "a grid is a list, not dict"),
    ],
)
def test_what_is_no_grid_is_told_in_one_line(value, complaint):
    """The error names place and reason."""
    with pytest.raises(ValueError, match=re.escape(complaint)) as error:
        grid_of(value)
    assert "\n" not in str(error.value)
