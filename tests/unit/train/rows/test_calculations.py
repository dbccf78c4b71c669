"""Which texts state right calculations, and only right ones."""

import pytest

from pipeline_lib.train.rows.calculations import states_right_calculations

RIGHT = [
    "6 + 7 = 13",
    "6+7=13.",
    "He pays 3 * $4.50 = $13.50 in total.",
    "12 boxes x 5 apples = 60 apples",
    "12 × 5 = 60, then 60 − 8 = 52",  # noqa: RUF001
    "2 + 3 * 4 = 14",
    "1,200 / 4 = 300",
    "10 / 3 = 3.33",
    "50 * 20% = 10",
    "100% - 20% = 80%",
    "3 - 5 = -2",
    "x = 5 * 2 = 10",
    "(3 + 4) * 2 = 14, and 14 + 1 = 15",
    "<<6*7=42>>42",
    "2 + 3 = 1 + 4, so 5 + 1 = 6",
]
WRONG = [
    "",
    "The answer is 13.",
    "6 + 7 = 14",
    "6 + 7 = 13, then 13 - 3 = 9",
    "10 / 3 = 3",
    "10 / 3 = 3.34",
    "4 / 0 = 0",
    "(3 + 4) * 2 = 15",
    "6 = 6",
]


@pytest.mark.parametrize("text", RIGHT)
def test_right_calculations(text):
    assert states_right_calculations(text)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_or_no_calculations(text):
    """A division that does not end needs decimal places; brackets alone state nothing that is checked."""
    assert not states_right_calculations(text)


def test_long_chains_take_linear_time():
    """A text of 100,000 characters without an equals sign."""
    assert not states_right_calculations("1 + " * 25_000)
    assert not states_right_calculations("1" * 100_000)
