"""Exact comparison without SymPy: what is surely equal, surely different, or not for it to say."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verify.math.exact.comparison import compare, decimals
from pipeline_lib.verify.math.exact.normal_form import exact_value, normalize


def _compared(gold, answer):
    return compare(normalize(gold), normalize(answer))


COMPARED = {
    # The same value in another notation is equal, exactly and without SymPy.
    True: [
        ("10,\\!080", "10080"),
        ("1\\,000\\,000", "1000000"),
        ("1000", "1 000"),
        ("\\$32,\\!348", "$32,348.00"),
        ("48^\\circ", "48"),
        ("120^{\\circ}", "120\u00b0"),
        ("198\\%", "198"),
        ("50", "50\\%"),
        ("0.5", "50 percent"),
        ("50\\%", "0.5"),
        ("12\\frac{3}{5}", "12.6"),
        ("12/5", "2 2/5"),
        ("3.5", "3\u00bd"),
        ("\\frac43", "4/3"),
        ("\\frac 59", "\\dfrac{5}{9}"),
        ("\\frac9{19}", "9/19"),
        ("\\frac{270}7\\text{ degrees}", "270/7"),
        (".35625", "0.35625"),
        ("6290000", "6.29 \\times 10^{6}"),
        ("1000", "1e3"),
        ("18", "18 dollars"),
        ("864 \\mbox{ inches}^2", "864"),
        ("15\\mbox{ cm}^2", "15 cm^2"),
        ("5", "x=5"),
        ("x=5", "5"),
        ("5", "$$5$$"),
        ("5", "+5"),
        ("5", "5."),
        ("5", "\uff15"),
        ("5", "\u0665"),
        ("\\text{4:30 p.m.}", "4:30 \\text{ PM}"),
        ("\\text{Evelyn}", "evelyn"),
        ("4a-2", "4a - 2"),
        ("1/3", "0.333333"),
        ("2/3", "0.6666667"),
        ("9" * 5000, "9" * 5000),
    ],
    # Two numbers that differ are different, however close.
    False: [
        ("50", "0.5"),
        ("1/3", "0.3333"),
        ("0.33333", "1/3"),
        ("2/3", "0.666666"),
        ("0.0000672", "0.000067"),
        ("0", "0.0000001"),
        ("10", "9.999999999999999"),
        ("11/2", "1 1/2"),
        ("12", "1 2/1"),
        ("5", "none"),
        ("1234", "1,235"),
        ("9" * 400, "9" * 399 + "8"),
    ],
    # Anything that is no plain number, and not the same text, is undecided here.
    None: [
        ("1234", "(1,234)"),
        ("2", "2 \\sin x"),
        ("2", "2\\pi"),
        ("2", "2xy"),
        ("1,-2", "-2,1"),
        ("x", "X"),
        ("5", "5=5"),
        ("5", "1, 5"),
        ("x = 5", "y = 5"),
        ("3", "1/0 + 3"),
    ],
}


@pytest.mark.parametrize(
    ("same", "gold", "answer"),
    [(same, *pair) for same, pairs in COMPARED.items() for pair in pairs],
)
def test_comparison(same, gold, answer):
    """Equal by notation, different by value, or undecided."""
    assert _compared(gold, answer) is same


def test_a_square_is_not_a_digit():
    """Compatibility forms alone would read a superscript two as 2."""
    assert normalize("x\u00b2") == "x^{2}"


@pytest.mark.parametrize("text", ["", "1/0", "--5", "1e999", "\\frac{1}{0}", "9" * 500, "\ud800"])
def test_no_exact_value(text):
    """A text that is no number, or too long, has no exact value."""
    assert exact_value(normalize(text)) is None


@given(st.integers(-(10**12), 10**12))
def test_spellings_of_an_integer_agree(number):
    """Thousands separators, decimals, currency, units and delimiters do not change an integer."""
    spellings = [
        f"{number:,}",
        f"{number:,}".replace(",", "{,}"),
        f"{number}.0",
        f"\\({number}\\)",
        f"{number} \\text{{ cm}}",
        f"{number} apples",
        f"\\frac{{{number}}}{{1}}",
        str(number).replace("-", "\u2212"),
    ]
    assert all(_compared(str(number), spelling) is True for spelling in spellings)
    assert _compared(str(number), str(number + 1)) is False


@given(st.fractions(max_denominator=999), st.fractions(max_denominator=999))
def test_fractions_compare_by_value(left, right):
    """Two written fractions are equal if and only if their values are."""
    written = f"\\frac{{{left.numerator}}}{{{left.denominator}}}"
    plain = f"{right.numerator}/{right.denominator}"
    assert exact_value(normalize(written)) == left
    assert _compared(written, plain) is (left == right)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=0, max_value=10**6))
def test_decimals_are_exact(number):
    """A decimal has the value that it spells."""
    assert exact_value(normalize(f"{number:f}")) == Fraction(number)


@given(st.text(), st.text())
def test_comparison_is_total_and_reflexive(gold, answer):
    """Any two texts can be compared, and every text equals itself."""
    assert _compared(gold, answer) in {True, False, None}
    assert _compared(gold, gold) is True


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 3, 7]))
def test_decimals_of_a_fraction(twos, fives, other):
    """As many as the larger power of 2 or 5 in the denominator; none if another prime is left."""
    value = Fraction(1, 2**twos * 5**fives * other)
    assert decimals(value) == (max(twos, fives) if other == 1 else None)
