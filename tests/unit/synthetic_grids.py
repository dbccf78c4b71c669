"""Random grids for tests."""

from hypothesis import strategies as st

from pipeline_lib.grids import Grid


@st.composite
def grids(draw, *, min_side: int = 1, max_side: int = 30) -> Grid:
    """A grid of any valid shape."""
    sides = st.integers(min_side, max_side)
    height, width = draw(sides), draw(sides)
    row = st.lists(st.integers(0, 9), min_size=width, max_size=width).map(tuple)
    return tuple(draw(st.lists(row, min_size=height, max_size=height)))
