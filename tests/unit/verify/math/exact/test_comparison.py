"""Exact comparison of numbers."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verify.math.exact.comparison import decimals


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 3, 7]))
def test_decimals_of_a_fraction(twos, fives, other):
    """As many as the larger power of 2 or 5 in the denominator; none if another prime is left."""
    value = Fraction(1, 2**twos * 5**fives * other)
    assert decimals(value) == (max(twos, fives) if other == 1 else None)
