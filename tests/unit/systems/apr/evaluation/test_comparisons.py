"""Paired differences between models, and at equal drawn tokens, worked out by hand."""

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.systems.apr.evaluation.comparisons import (
    compare_at_equal_path,
    compare_at_equal_tokens,
    compare_models,
)
from tests.unit.systems.apr.evaluation.rows import drawn, failed, row

PARAMS = EvaluateParams(resamples=2000)
CLAIM = "Exploring Operation: 2+4=6, Resulting Numbers: [6, 9]\n"


def some(right, count=30, **changes):
    """A setting that is right on the first ``right`` of ``count`` problems."""
    return drawn([row(str(n), right=n < right) for n in range(count)], **changes)


def names(found):
    return [(one.model.name, one.base.name) for one in found]


def test_models_are_compared_on_the_problems_that_both_have():
    """b is right on all of 0..29, a on 0..9; 30 failed for b. Difference 20/30 of 30 problems."""
    b = [*(row(str(n), right=True) for n in range(30)), failed("30")]
    [found] = compare_models([some(10, 31, name="a"), drawn(b, name="b")], PARAMS, seed=1)
    shown = found.row()
    assert (shown["base"], shown["model"], shown["problems"]) == ("a", "b", 30)
    assert shown["difference"]["value"] == pytest.approx(2 / 3)
    assert shown["difference"]["low"] > 0.4
    assert shown["finding"] == "gain"


def test_a_pair_of_both_kinds_is_parallel_minus_serial():
    """In either order; models of one kind are the later minus the earlier."""
    parallel, serial = some(20, name="p"), some(5, name="s", kind="serial")
    later = some(25, name="q")
    assert names(compare_models([parallel, serial, later], PARAMS, seed=1)) == [
        ("p", "s"),
        ("q", "p"),
        ("q", "s"),
    ]
    assert names(compare_models([serial, parallel], PARAMS, seed=1)) == [("p", "s")]


def test_only_different_models_at_one_temperature_are_compared():
    """Two conditions of p and two temperatures: of 6 settings the pairs p, q with equal T, 2 conditions each."""
    settings = [
        some(3, name=name, condition=condition, temperature=temperature)
        for name, conditions in (("p", ("x", "y")), ("q", ("",)))
        for condition in conditions
        for temperature in (0.0, 1.0)
    ]
    found = compare_models(settings, PARAMS, seed=1)
    assert [(one.base.condition, one.model.temperature) for one in found] == [
        ("x", 0.0),
        ("x", 1.0),
        ("y", 0.0),
        ("y", 1.0),
    ]


def serial(samples, *, each=12):
    """20 problems, right in sample 0 alone, with the same claim in all others."""
    rows = [
        row(str(n), k, right=k == 0, claim=None if k == 0 else CLAIM, drawn=each)
        for n in range(20)
        for k in range(samples)
    ]
    return drawn(rows, name="s", kind="serial", temperature=1.0)


def test_a_rollout_is_compared_with_as_many_serial_ones_as_draw_its_tokens():
    """30 tokens against 12 each: 3 of 4 samples, 36 tokens. Consensus 0 and pass@3 3/4; parallel is right on 10/20."""
    parallel = drawn([row(str(n), right=n < 10, drawn=30) for n in range(20)], name="p")
    [found] = compare_at_equal_tokens([parallel, serial(4)], PARAMS, seed=1)
    assert (found.samples, found.problems) == (3, 20)
    assert (found.drawn_tokens, found.serial_drawn_tokens) == (30, 36)
    assert found.over_consensus.interval.value == pytest.approx(0.5)
    assert found.over_any_sample.interval.value == pytest.approx(0.5 - 0.75)


def test_too_few_serial_samples_are_no_comparison():
    """30 tokens take 3 samples of 12: with two, the number that is needed is all; one of each problem is none."""
    parallel = drawn([row(str(n), drawn=30) for n in range(20)], name="p")
    [found] = compare_at_equal_tokens([parallel, serial(2)], PARAMS, seed=1)
    assert (found.samples, found.problems, found.row()["over_consensus"]) == (3, 0, None)
    assert compare_at_equal_tokens([parallel, serial(1, each=60)], PARAMS, seed=1) == []


def test_a_serial_model_is_cut_at_the_critical_path():
    """Parallel has 10 of 20 at 6 critical tokens. Serial has all 20, but 15 of them with more than 6 drawn tokens."""
    parallel = drawn([row(str(n), right=n < 10, critical=6) for n in range(20)], name="p")
    lengths = [3 if n < 5 else 7 for n in range(20)]
    rows = [row(str(n), right=True, drawn=some, critical=some) for n, some in enumerate(lengths)]
    one = drawn(rows, name="s", kind="serial")
    [found] = compare_at_equal_path([one, parallel], PARAMS, seed=1)
    shown = found.row()
    assert (shown["model"], shown["base"], shown["problems"]) == ("p", "s", 20)
    assert (shown["critical_tokens"], shown["base_accuracy"]) == (6, 0.25)
    assert shown["difference"]["value"] == pytest.approx(0.25)
    assert shown["base_critical_tokens"] == pytest.approx((5 * 3 + 15 * 6) / 20)
    other = drawn(rows, name="s", kind="serial", temperature=1.0)
    assert compare_at_equal_path([parallel, other], PARAMS, seed=1) == []


def test_both_may_be_cut_at_the_mean_critical_path():
    """Paths of 4 and 8 tokens, mean 6: of 10 right parallel rollouts 5 are longer, serial ones are cut at 6."""
    rows = [row(str(n), right=n < 10, critical=4 if n % 2 else 8) for n in range(20)]
    other = [row(str(n), right=n < 2, drawn=9, critical=3 if n < 2 else 9) for n in range(20)]
    [found] = compare_at_equal_path(
        [drawn(rows, name="p"), drawn(other, name="s", kind="serial")], PARAMS, seed=1
    )
    shown = found.row()
    assert shown["base_critical_tokens"] == pytest.approx((2 * 3 + 18 * 6) / 20)
    assert shown["difference"]["value"] == pytest.approx(0.5 - 0.1)
    assert shown["both_cut"]["difference"]["value"] == pytest.approx(0.25 - 0.1)


def test_intervals_do_not_depend_on_names():
    """A model in another folder has the same figures."""
    bounds = [
        compare_models([some(8, name=name), some(12, name="q")], PARAMS, seed=1)[0].row()[
            "difference"
        ]
        for name in ("/a/model", "/b/model")
    ]
    assert bounds[0] == bounds[1]
