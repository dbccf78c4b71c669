"""Formats of figures; non-breaking spaces are compared as plain ones."""

import pytest

from pipeline_lib.records import Interval
from pipeline_lib.study.pages import wording


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_scores_and_differences():
    """A score is in percent, a difference in signed points with a true minus sign."""
    found = Interval(value=0.05, low=-0.012, high=0.112)
    assert plain(wording.score(found)) == "5.0 % (-1.2 to 11.2)"
    assert plain(wording.difference(found)) == "+5.0 (\N{MINUS SIGN}1.2 to +11.2)"
    assert plain(wording.level(found)) == "95 %"


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.0"), (-0.0001, "0.0"), (0.0006, "+0.1")])
def test_a_difference_that_rounds_to_zero_has_no_sign(value, text):
    """-0.01 points is shown as 0.0, not as a loss."""
    assert wording.points(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0214, "p = 0.021"), (0.001, "p = 0.001"), (0.0009, "p < 0.001")]
)
def test_tiny_p_values_are_bounds(value, text):
    """Ten thousand resamples cannot tell 0.0001 from less."""
    assert plain(wording.p_equation(value)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.24, "4.2 s"), (59.7, "1 min 00 s"), (185, "3 min 05 s"), (7620, "2 h 07 min")],
)
def test_durations(seconds, text):
    """The unit follows the size, and 59.7 s is not '60.0 s'."""
    assert plain(wording.duration(seconds)) == text


@pytest.mark.parametrize(
    ("number", "text"), [(1234567, "1 234 567"), (12.0, "12"), (0.4567, "0.457")]
)
def test_counts(number, text):
    """Whole numbers are grouped by thousands, means keep three digits."""
    assert plain(wording.count(number)) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one branch", "one branch"),
        ("parallel rl T=0", "parallel rl (T = 0)"),
        ("best vote, drawn for=rounds 4,1 of=m", "best vote, drawn (for rounds 4,1; of m)"),
    ],
)
def test_settings_of_an_arm_are_in_brackets(name, text):
    """Values may have spaces and commas."""
    assert wording.arm_in_words(name) == text
