"""The table of `benchmarks.classmate_arms`: differences over several seeds with both intervals."""

import pytest

from benchmarks.classmate_arms import differences_table
from benchmarks.lib.seeds import over_seeds
from pipeline_lib.study.statistics.paired import DifferenceFinding
from pipeline_lib.study.study import Difference, Study


def test_the_interval_over_seeds_is_that_of_student():
    """0, 2 and 4 points: deviation 2, standard error 2 / sqrt 3; t of 2 degrees of freedom is 4.303."""
    found = over_seeds([0.0, 0.02, 0.04])
    margin = 4.302653 * 0.02 / 3**0.5
    assert found == pytest.approx({"value": 0.02, "low": 0.02 - margin, "high": 0.02 + margin})


def test_one_seed_has_no_interval_over_seeds():
    """Its deviation is unknown."""
    assert over_seeds([0.02]) is None


def study(value):
    """Plain training minus the arm, with bounds at a distance of 3 points."""
    difference = Difference(
        arm="plain", reference="w0.5", set="main", measure="pass@1", subset="all", value=-value,
        low=-value - 0.03, high=-value + 0.03, p=1.0, p_adjusted=None, n=9, of_arm=0.5,
        of_reference=0.5, finding=DifferenceFinding.GAIN,
    )  # fmt: skip
    return Study(
        system="classmate", seed=7, level=0.95, provenance={}, arms=(), points=(),
        differences=(difference,), left_out=(), compute={"peers": {}},
    )  # fmt: skip


def test_the_table_has_both_intervals():
    """Over problems 2 -+ 3 / sqrt 3 points for these three trainings, over seeds 2 -+ 5.0."""
    table = differences_table([study(value) for value in (0.0, 0.02, 0.04)], ["w0.5"], "plain")
    cells = [next(iter(column.cells)) for column in table.columns]
    assert [column.header for column in table.columns][3:] == [
        "mean (95 % over problems)",
        "(95 % over seeds)",
    ]
    assert cells[2:] == ["+0.0, +2.0, +4.0", "+2.0 (+0.3 to +3.7)", "+2.0 (-3.0 to +7.0)"]
