"""Figures of models from rows of rollouts, worked out by hand."""

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.systems.apr.evaluation.figures import best_conditions, model_figures
from tests.unit.systems.apr.evaluation.rows import drawn, failed, row

PARAMS = EvaluateParams(resamples=200)


def figures(rows, **changes):
    return model_figures(drawn(rows, **changes), PARAMS, seed=1)


def test_accuracy_is_a_mean_over_problems():
    """a: 1 of 2, b: 0 of 1 that did not fail, c: failed and left out. Accuracy (1/2 + 0) / 2 = 1/4."""
    rows = [
        row("a", 0, right=True, claim="x"),
        row("a", 1, claim="y"),
        row("b", 0),
        failed("b", 1),
        failed("c", 0),
    ]
    found = figures(rows)
    assert found.accuracy.value == pytest.approx(0.25)
    assert (found.problems, found.rollouts, found.failed) == (2, 5, 2)
    assert found.any_sample == 0.5


def test_claims_and_false_claims():
    """Three of four rollouts claim; two of these are wrong."""
    rows = [row("a", 0, right=True, claim="x"), row("b", 0, claim="y"), row("c", 0, claim="z")]
    found = figures([*rows, row("d", 0)])
    assert (found.claims, found.false_claims) == (0.75, pytest.approx(2 / 3))


def test_failed_rollouts_are_in_no_mean():
    """Tokens 10 and 30 drawn, and 999 of a failed one: 20 on average; events likewise."""
    rows = [
        row("a", 0, events={"children": 4}),
        row("b", 0, drawn=30, events={"children": 1, "failed_children": 1}),
        failed("c", 0),
    ]
    found = figures(rows)
    assert found.tokens == {"drawn": 20, "critical": 5, "total": 20, "longest": 8}
    assert (found.events["children"], found.events["failed_children"]) == (2.5, 0.5)


def test_one_sample_has_wilsons_interval():
    """8 of 10: Wilson's 95 % bounds are 0.490 and 0.943."""
    found = figures([row(str(n), 0, right=n < 8) for n in range(10)])
    bounds = found.row()["accuracy"]
    assert bounds == {
        "value": 0.8,
        "low": pytest.approx(0.4902, abs=1e-4),
        "high": pytest.approx(0.9433, abs=1e-4),
    }


def test_the_best_condition_is_the_most_accurate_and_of_equal_ones_the_fastest():
    """Right on 1, 2 and 2 of 2 problems with 5, 9 and 7 critical tokens: the third; one condition is no choice."""
    sweep = [
        figures(
            [
                row("a", right=True, critical=critical),
                row("b", right=solved > 1, critical=critical),
            ],
            condition=name,
        )
        for name, solved, critical in (("x", 1, 5), ("y", 2, 9), ("z", 2, 7))
    ]
    alone = figures([row("a", right=True)], temperature=1.0)
    assert [one.setting.condition for one in best_conditions([*sweep, alone])] == ["z"]


def test_a_figure_names_its_setting():
    """Condition and temperature are part of the record, as in metrics.json."""
    shown = figures([row("a")], condition="Sub Call Budget: 9", temperature=1.0).row()
    assert {name: shown[name] for name in ("name", "kind", "condition", "temperature")} == {
        "name": "m",
        "kind": "parallel",
        "condition": "Sub Call Budget: 9",
        "temperature": 1.0,
    }
    assert shown["votes"] == []
