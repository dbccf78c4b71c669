"""The table of `benchmarks.classmate_arms`: differences over several seeds with both intervals."""

import pytest

from benchmarks.classmate_arms import differences_table
from benchmarks.lib.seeds import over_seeds


def test_the_interval_over_seeds_is_that_of_student():
    """0, 2 and 4 points: deviation 2, standard error 2 / sqrt 3; t of 2 degrees of freedom is 4.303."""
    found = over_seeds([0.0, 0.02, 0.04])
    margin = 4.302653 * 0.02 / 3**0.5
    assert found == pytest.approx({"value": 0.02, "low": 0.02 - margin, "high": 0.02 + margin})


def test_one_seed_has_no_interval_over_seeds():
    """Its deviation is unknown."""
    assert over_seeds([0.02]) is None


def metrics(accuracy):
    difference = {"difference": accuracy, "low": accuracy - 0.03, "high": accuracy + 0.03}
    row = {"accuracy": difference, "pass_at_8": difference, "classmate_success_right": {}}
    return {"peers": {}, "comparisons": [{"policy": "w0.5", "reference": "plain", **row}]}


def test_the_table_has_both_intervals():
    """Over problems 2 -+ 3 / sqrt 3 points for these three trainings, over seeds 2 -+ 5.0."""
    table = differences_table([metrics(value) for value in (0.0, 0.02, 0.04)], ["w0.5"], "plain")
    cells = [next(iter(column.cells)) for column in table.columns]
    assert [column.header for column in table.columns][3:] == [
        "mean (95 % over problems)",
        "(95 % over seeds)",
    ]
    assert cells[2:] == ["+0.0, +2.0, +4.0", "+2.0 (+0.3 to +3.7)", "+2.0 (-3.0 to +7.0)"]
