"""Figures of models from rows of rollouts, worked out by hand."""

import pytest

from pipeline_lib.adaptive.evaluation.figures import compare_models, model_figures
from pipeline_lib.params.evaluate import EvaluateParams

PARAMS = EvaluateParams(resamples=2000)


def row(problem, sample, *, right=False, claim=None, drawn=10, **more):
    tokens = {"drawn": drawn, "critical": 5, "total": 20, "longest": 8}
    named = {"problem_id": problem, "sample": sample, "is_correct": right, "claim": claim}
    return named | {"any_child_right": right, "tokens": tokens, "events": {}, "seqs": []} | more


def failed(problem, sample):
    return row(problem, sample, drawn=999) | {"error": "it broke"}


def figures(rows, **changes):
    return model_figures("m", "parallel", "", rows, PARAMS, seed=1, **changes)


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


def test_models_are_compared_on_the_problems_that_both_have():
    """b is right on all of 0..29, a on 0..9; 30 failed for b. Difference 20/30 of 30 problems."""
    rows = {
        "a": [row(str(n), 0, right=n < 10) for n in range(31)],
        "b": [*(row(str(n), 0, right=True) for n in range(30)), failed("30", 0)],
    }
    [found] = compare_models(rows, PARAMS, seed=1)
    shown = found.row()
    assert (shown["base"], shown["model"], shown["problems"]) == ("a", "b", 30)
    assert shown["difference"]["value"] == pytest.approx(2 / 3)
    assert shown["difference"]["low"] > 0.4
    assert shown["finding"] == "gain"
