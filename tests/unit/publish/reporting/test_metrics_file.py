"""metrics.json: the figures that other programs read."""

import json

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.publish.reporting.metrics_file import (
    StageCosts,
    TokenCount,
    build_metrics,
    build_summary,
)
from pipeline_lib.publish.reporting.run_compute import RunCompute, TrainingCompute
from pipeline_lib.study.result import evaluate_policies
from tests.unit.study.judged_groups import judged_group

LOOP = TrainingCompute(cpu_seconds=3.0, gpu_seconds=0.0, trained_tokens=100, drawn_tokens=80)
CONTROL = TrainingCompute(cpu_seconds=3.5, gpu_seconds=0.0, trained_tokens=160, drawn_tokens=0)
PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=200)


BASE = [judged_group("a", "cwww"), judged_group("b", "ffxl")]
TRAINED = [judged_group("a", "cccc"), judged_group("b", "cwww")]


@pytest.fixture
def result():
    control = [judged_group("a", "ccww"), judged_group("b", "wwww")]
    return evaluate_policies(BASE, TRAINED, PARAMS, seed=7, control=control)


@pytest.fixture
def figures(result):
    return build_metrics(
        result,
        costs=StageCosts(
            seconds={"sample": 2.5, "train": 4.0},
            total_seconds=5.0,
            tokens={"sample": TokenCount(prompt=10, completion=20)},
            peaks_mib={"sample": 900},
        ),
        spent=RunCompute(loop=LOOP, control=CONTROL),
        unseen_number_sets=2,
    )


@pytest.mark.parametrize("policy", ["base", "control", "trained"])
@pytest.mark.parametrize("score", ["pass_at_1", "pass_at_2"])
def test_each_score_has_value_and_bounds(figures, policy, score):
    """A reader finds value, low and high of every pass@k, strict and lenient."""
    for found in (figures[policy][score], figures[policy]["lenient"][score]):
        assert set(found) == {"value", "low", "high"}
        assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1


def test_values_by_hand(figures):
    """base: (1/4 + 0/3) / 2, lenient (1/4 + 2/3) / 2; trained: (1 + 1/4) / 2; difference 0.5."""
    assert figures["base"]["pass_at_1"]["value"] == pytest.approx(0.125)
    assert figures["base"]["lenient"]["pass_at_1"]["value"] == pytest.approx(11 / 24)
    assert figures["trained"]["pass_at_1"]["value"] == pytest.approx(0.625)
    assert figures["paired"]["difference"]["value"] == pytest.approx(0.5)
    assert figures["paired"]["pass_at_2"]["value"] == pytest.approx(0.5)
    assert figures["num_problems"] == 2


def test_our_failures_and_cut_off_paths_are_figures_of_their_own(figures):
    """Of 8 base paths one was not judged and one was cut off."""
    assert figures["base"]["verifier_failures"] == 1
    assert figures["base"]["truncated_fraction"] == 1 / 8


def test_costs_by_stage(figures):
    """Seconds have a total, which is no sum; tokens are split into what was read and written."""
    assert figures["seconds"] == {"sample": 2.5, "train": 4.0, "total": 5.0}
    assert figures["tokens"] == {"sample": {"prompt": 10, "completion": 20}}


def test_the_control_has_figures_of_its_own(figures):
    """control: (2/4 + 0/4) / 2 = 0.25, trained minus control 0.375; compute of both sides."""
    assert set(figures["control"]) == set(figures["base"]) == set(figures["trained"])
    assert set(figures["paired_control"]) == set(figures["paired"])
    assert figures["control"]["pass_at_1"]["value"] == pytest.approx(0.25)
    assert figures["paired_control"]["difference"]["value"] == pytest.approx(0.375)
    assert figures["compute"]["loop"]["cpu_seconds"] == 3.0
    assert figures["compute"]["control"]["trained_tokens"] == 160
    assert figures["num_unseen_number_sets"] == 2


def test_plain_json(figures):
    """Everything survives JSON unchanged: no NaN, no object, no key but text."""
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_the_summary_is_a_few_of_the_figures(result, figures):
    """Eight numbers, equal to those of metrics.json; trained pass@1 0.625 and pass@2 0.75 by hand."""
    summary = build_summary(result)
    assert summary == {
        "pass_at_1": figures["trained"]["pass_at_1"]["value"],
        "pass_at_2": figures["trained"]["pass_at_2"]["value"],
        "base_pass_at_1": figures["base"]["pass_at_1"]["value"],
        "control_pass_at_1": figures["control"]["pass_at_1"]["value"],
        "gain_over_control": figures["paired_control"]["difference"]["value"],
        "p_value": figures["paired_control"]["difference"]["p_value"],
        "truncated_fraction": figures["trained"]["truncated_fraction"],
        "mean_completion_tokens": figures["trained"]["mean_completion_tokens"],
    }
    assert summary["pass_at_1"] == pytest.approx(0.625)
    assert summary["pass_at_2"] == pytest.approx(0.75)


def test_without_a_control_the_gain_is_over_the_base():
    """trained 0.625 minus base 0.125 = 0.5, under a name of its own."""
    result = evaluate_policies(BASE, TRAINED, PARAMS, seed=7)
    summary = build_summary(result)
    assert summary["gain_over_base"] == pytest.approx(0.5)
    assert not {name for name in summary if "control" in name}
