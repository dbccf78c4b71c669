"""The table of the benchmark of soft communication, on evaluations made by hand."""

import pathlib

import pytest

from benchmarks.prr_communication import CELLS, NONE, study_of
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.stored import Evaluation, StoredSeries
from pipeline_lib.study.study import ALL, bare_study


def evaluation(*right: float) -> Evaluation:
    """The scorer's accuracy on problems 0, 1, ..."""
    values = {("puzzle", str(place), "gold"): one for place, one in enumerate(right)}
    series = StoredSeries(
        arm="scorer",
        set="main",
        measure="accuracy",
        subset=ALL,
        upper_bound=False,
        values=values,
        costs={},
        seen=frozenset(),
        counts=dict.fromkeys(values, 1),
    )
    study = bare_study("prr", (), EvaluateParams(), seed=7)
    return Evaluation(folder=pathlib.Path(), study=study, series=(series,))


def test_differences_from_no_communication():
    """Seed 7: 3 of 4 against 1 of 4, seed 8: 2 of 4 against 2 of 4, of 8 problems 5/8 - 3/8 = 25 points.

    Over seeds the mean of 50 and 0 is 25. A setting with one seed is compared on its four problems.
    """
    found = {
        NONE: {7: evaluation(1, 0, 0, 0), 8: evaluation(1, 1, 0, 0)},
        CELLS[1]: {7: evaluation(1, 1, 1, 0), 8: evaluation(1, 0, 1, 0)},
        CELLS[-1]: {8: evaluation(0, 0, 0, 0)},
    }
    study = study_of("sudoku6", found)
    assert [(one.arm, one.n) for one in study.differences] == [
        ("scorer alpha=.1 interval=1", 8),
        ("scorer alpha=.3 interval=4", 4),
    ]
    assert [one.value for one in study.differences] == [pytest.approx(0.25), pytest.approx(-0.5)]
    assert study.claims[0] == "sudoku6: 5 runs"
    assert "accuracy: +50.0, +0.0; over seeds +25.0 (" in study.claims[1]
    assert study.claims[2].endswith("accuracy: -50.0; over seeds one seed")
