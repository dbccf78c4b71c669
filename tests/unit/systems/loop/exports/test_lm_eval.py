"""Results files as lm-evaluation-harness 0.4 writes and reads them."""

import json

import pytest

from pipeline_lib.systems.loop.exports.lm_eval import lm_eval_results, results_name
from tests.unit.systems.loop.exports.finished_policies import finished
from tests.unit.systems.loop.invented_study import EVALUATED_AT

KS = (1, 2)
KEYS = {
    "results": dict,
    "group_subtasks": dict,
    "configs": dict,
    "versions": dict,
    "n-shot": dict,
    "higher_is_better": dict,
    "n-samples": dict,
    "config": dict,
    "date": float,
    "model_source": str,
    "model_name": str,
    "model_name_sanitized": str,
}


def written(base, trained):
    run = finished(base, trained, ks=KS)
    found = [lm_eval_results(run, policy) for policy in run.groups]
    return [json.loads(json.dumps(results, allow_nan=False)) for results in found]


def test_keys_and_types_are_the_harnesss():
    """Every key that the result schema requires, for the one task, and the key ``reasonloop``."""
    results, _ = written(["ccww", "cwww"], ["cccw", "ccww"])
    assert {key: type(results[key]) for key in KEYS} == KEYS
    assert set(results) == {*KEYS, "reasonloop"}
    for key in ("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples"):
        assert set(results[key]) == {"countdown"}


def test_metrics_have_a_filter_and_a_standard_error():
    """pass@1 of 1/2 and 1/4: mean 0.375; deviation 0.125 * sqrt 2, over sqrt 2 problems 0.125."""
    results, _ = written(["ccww", "cwww"], ["cccw", "ccww"])
    scores = results["results"]["countdown"]
    assert scores["pass@1,strict"] == pytest.approx(0.375)
    assert scores["pass@1_stderr,strict"] == pytest.approx(0.125)
    assert scores["alias"] == "countdown"
    expected = {
        f"pass@{k}{part},{name}"
        for k in KS
        for part in ("", "_stderr")
        for name in ("strict", "lenient")
    }
    assert set(scores) == {"name", "alias", "sample_len", *expected}
    assert results["higher_is_better"]["countdown"] == {"pass@1": True, "pass@2": True}


def test_strict_and_lenient_are_two_filters():
    """f is right in another format: lenient 1/2, strict 0."""
    results, _ = written(["ffww", "ffww"], ["ffww", "ffww"])
    scores = results["results"]["countdown"]
    assert (scores["pass@1,strict"], scores["pass@1,lenient"]) == (0, 0.5)


def test_problems_that_could_not_be_scored_are_in_the_original_number_only():
    """3 problems, one with a single scored path where pass@2 needs two: effective 2."""
    results, _ = written(["ccww", "cwww", "cxxx"], ["ccww", "cwww", "cwww"])
    assert results["n-samples"]["countdown"] == {"original": 3, "effective": 2}
    assert results["results"]["countdown"]["sample_len"] == 2


def test_one_problem_has_no_standard_error():
    """The harness writes N/A then; not a number would be no JSON."""
    results, _ = written(["ccww"], ["ccww"])
    assert results["results"]["countdown"]["pass@1_stderr,strict"] == "N/A"


def test_the_finding_goes_along():
    """Both files contain the paired difference with its finding."""
    _, trained = written(["cwww"] * 7, ["ccww"] + ["cwww"] * 6)
    found = trained["reasonloop"]["paired_difference"]["pass@1,strict"]
    assert found["value"] == pytest.approx(0.25 / 7)
    assert found["finding"] == "no significant gain"


def test_the_file_is_named_by_its_day():
    """As the harness does, colons apart."""
    assert results_name(EVALUATED_AT) == "results_2026-11-20T08-30-00.json"
