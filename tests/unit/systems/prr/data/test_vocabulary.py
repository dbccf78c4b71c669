"""Grids as tokens in the layout of TRM and HRM, and grids decoded from model outputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.systems.prr.data.grids import (
    END,
    PAD,
    VOCAB_SIZE,
    crop,
    encode,
    grid_to_array,
)


def rows_of(text: str) -> np.ndarray:
    return np.array([[int(token) for token in row.split()] for row in text.split("/")])


def tokens_of(text: str) -> np.ndarray:
    return rows_of(text).reshape(-1)


def test_two_by_two_on_four_by_four():
    """The example of the format: colours 4 5 / 6 8 are 6 7 / 8 10, ends at the right and below."""
    tokens = encode(grid_to_array(((4, 5), (6, 8))), side=4)
    assert (
        tokens.reshape(4, 4).tolist() == rows_of("6 7 1 0 / 8 10 1 0 / 1 1 0 0 / 0 0 0 0").tolist()
    )


@pytest.mark.parametrize(
    ("top", "left", "expected"),
    [
        (1, 0, "0 0 0 / 2 3 1 / 1 1 0"),
        (1, 1, "0 0 0 / 0 2 3 / 0 1 1"),
        (2, 1, "0 0 0 / 0 0 0 / 0 2 3"),
    ],
)
def test_ends_only_where_they_fit(top, left, expected):
    """A grid at the lower or right edge has no end tokens there."""
    tokens = encode(grid_to_array(((0, 1),)), side=3, top=top, left=left)
    assert tokens.tolist() == tokens_of(expected).tolist()


def test_the_largest_grid_fills_the_canvas():
    """30 x 30 leaves no room: 900 colours, no ends, no padding."""
    tokens = encode(np.full((30, 30), 9, dtype=np.uint8))
    assert tokens.tolist() == [11] * 900


@pytest.mark.parametrize(
    ("tokens", "grid"),
    [
        # 2 x 2 (4 cells) is larger than 3 x 1 and 1 x 3.
        ("2 3 4 / 5 6 1 / 7 1 0", ((0, 1), (3, 4))),
        # 1 x 4 and 2 x 2 tie: fewer rows win.
        ("2 3 4 5 / 6 7 1 1 / 1 1 1 1 / 0 0 0 0", ((0, 1, 2, 3),)),
        # Colours beyond the corner's rectangle do not count.
        ("2 1 9 9 / 1 9 9 9 / 9 9 9 9 / 9 9 9 9", ((0,),)),
        ("1 2 / 2 2", None),
        # 12 is outside of the vocabulary.
        ("2 12 / 3 4", ((0,), (1,))),
    ],
)
def test_crop_of_unfinished_answers(tokens, grid):
    """The largest rectangle of colours at the upper left is the answer."""
    assert crop(tokens_of(tokens)) == grid


@given(st.lists(st.integers(PAD, VOCAB_SIZE), min_size=25, max_size=25))
def test_crop_equals_a_search_over_all_rectangles(tokens):
    """Brute force: every height and width, first the fewest rows; larger areas replace smaller."""
    canvas = np.array(tokens).reshape(5, 5)
    best, area = None, 0
    for height in range(1, 6):
        for width in range(1, 6):
            part = canvas[:height, :width]
            if height * width > area and ((part > END) & (part < VOCAB_SIZE)).all():
                best, area = tuple(map(tuple, (part - 2).tolist())), height * width
    assert crop(np.array(tokens)) == best
