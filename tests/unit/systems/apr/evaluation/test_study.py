"""Accuracy, claims, votes and differences of models of threads, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.systems.apr.evaluation.study import (
    BOTH_CUT,
    EQUAL_PATH,
    apr_study,
    most_accurate,
    rollout_attempts,
)
from tests.unit.systems.apr.evaluation.rows import drawn, failed, row

PARAMS = EvaluateParams(resamples=500)


def claim(operation, numbers):
    return f"Exploring Operation: {operation}, Resulting Numbers: {numbers}\n"


RIGHT, WRONG, OTHER = claim("2+4=6", "[6, 9]"), claim("9-4=5", "[2, 5]"), claim("9-2=7", "[4, 7]")


def study_of(*settings):
    return apr_study(settings, PARAMS, seed=1, seen={}, provenance={})[0]


def some(right, count=30, **changes):
    """A setting that is right on the first ``right`` of ``count`` problems."""
    return drawn([row(str(n), right=n < right) for n in range(count)], **changes)


def differences(study, subset="all"):
    return {(one.arm, one.reference): one for one in study.differences if one.subset == subset}


def test_accuracy_is_a_mean_over_problems():
    """a: 1 of 2, b: 0 of 1 that did not fail, c: failed and left out. Accuracy (1/2 + 0) / 2 = 1/4."""
    study = study_of(
        drawn(
            [row("a", 0, right=True, claim="x"), row("a", 1), row("b"), failed("b", 1), failed("c")]
        )
    )
    point = study.point("m", "accuracy")
    assert (point.value, point.n) == (0.25, 2)
    assert [(one.reason, one.n) for one in study.left_out] == [("m, T = 0: failed rollouts", 2)]


def test_claims_and_false_claims():
    """Three of four rollouts claim; two of these are wrong."""
    rows = [row("a", right=True, claim="x"), row("b", claim="y"), row("c", claim="z"), row("d")]
    study = study_of(drawn(rows))
    assert study.point("m", "claims").value == 0.75
    assert study.point("m", "false claims").value == pytest.approx(2 / 3)


def test_failed_rollouts_are_in_no_mean():
    """Tokens 10 and 30 drawn, and 999 of a failed one: 20 on average; events likewise."""
    rows = [
        row("a", events={"children": 4}),
        row("b", drawn=30, events={"children": 1, "failed_children": 1}),
        failed("c"),
    ]
    study = study_of(drawn(rows))
    assert study.point("m", "accuracy").cost.drawn == 20
    events = study.compute["events"]["m, T = 0"]
    assert (events["children"], events["failed_children"]) == (2.5, 0.5)


def test_one_sample_has_wilsons_interval():
    """8 of 10: Wilson's 95 % bounds are 0.490 and 0.943."""
    point = study_of(some(8, 10)).point("m", "accuracy")
    assert (point.low, point.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_the_best_condition_is_the_most_accurate_and_of_equal_ones_the_fastest():
    """Right on 1, 2 and 2 of 2 problems with 5, 9 and 7 critical tokens: the third."""
    sweep = [
        drawn(
            [row("a", right=True, critical=c), row("b", right=solved > 1, critical=c)],
            condition=name,
        )
        for name, solved, c in (("x", 1, 5), ("y", 2, 9), ("z", 2, 7))
    ]
    assert most_accurate(sweep).condition == "z"


def vote(rows, k, kind="parallel vote"):
    """Value of a vote of ``k`` at problem a; None without one."""
    series = apr_study([drawn(rows)], PARAMS, seed=1, seen={}, provenance={})[1]
    for one in series:
        if one.arm.base == kind and one.arm.settings["paths"] == k:
            return one.values.get("a")
    return None


COMMUTED = claim("4+2=6", "[9, 6]")


@pytest.mark.parametrize(
    ("claims", "right", "values"),
    [
        # right, right, wrong: of 2 by (1 + 2 x 1/2) / 3
        ((RIGHT, RIGHT, WRONG), 2, {1: 2 / 3, 2: 2 / 3, 3: 1}),
        # wrong twice, right once
        ((RIGHT, WRONG, WRONG), 1, {3: 0}),
        # rollouts without a claim, or with an empty one, abstain
        ((RIGHT, None, ""), 1, {3: 1}),
        # commuted operands, and another order of the numbers, are one answer
        ((RIGHT, COMMUTED, WRONG), 2, {3: 1}),
    ],
)
def test_the_most_frequent_claim_wins(claims, right, values):
    """The first ``right`` rollouts are right."""
    rows = [row("a", n, right=n < right, claim=one) for n, one in enumerate(claims)]
    assert {k: vote(rows, k) for k in values} == pytest.approx(values)


def test_the_oracle_needs_one_right_rollout():
    """Right once of three: pass@2 is 2/3, pass@3 is 1."""
    rows = [row("a", n, right=n == 0, claim=RIGHT if n == 0 else WRONG) for n in range(3)]
    assert [vote(rows, k, "oracle") for k in (2, 3)] == pytest.approx([2 / 3, 1])


def test_problems_with_too_few_rollouts_have_no_vote():
    """Of b one of two failed: it has a vote of 1, and none of 2."""
    study = study_of(drawn([row("a", 0), row("a", 1), row("b", 0), failed("b", 1)]))
    votes = {one.arm: one.n for one in study.points if one.arm.startswith("parallel vote")}
    assert votes == {"parallel vote paths=1": 2, "parallel vote paths=2": 1}


def test_a_curve_has_powers_of_two_and_all_samples():
    """3 samples of 10 drawn tokens: votes of 1, 2, 3 with 10, 20, 30.

    Critical tokens 5, 6, 9: the longest of 1 is 20/3 on average, of 2 (6 + 9 + 9) / 3 = 8, of 3 it is 9.
    """
    rows = [row("a", n, critical=tokens) for n, tokens in enumerate((5, 6, 9))]
    points = [one for one in study_of(drawn(rows)).points if one.arm.startswith("parallel vote")]
    assert [one.cost.drawn for one in points] == [10, 20, 30]
    assert [one.cost.critical for one in points] == pytest.approx([20 / 3, 8, 9])


def test_one_sample_is_no_vote():
    """The arm of the model alone."""
    assert [one.name for one in study_of(some(1)).arms] == ["m"]


@given(st.lists(st.sampled_from([RIGHT, WRONG, OTHER, None]), min_size=2, max_size=6))
def test_a_vote_of_one_is_the_accuracy_and_pass_at_k_bounds_every_vote(claims):
    """For any claims of a problem."""
    rows = [row("a", n, right=one == RIGHT, claim=one) for n, one in enumerate(claims)]
    assert vote(rows, 1) == pytest.approx(claims.count(RIGHT) / len(claims))
    for k in (1, 2, len(claims)):
        assert vote(rows, k) <= vote(rows, k, "oracle") + 1e-12


def test_models_are_compared_on_the_problems_that_both_have():
    """b is right on all of 0..29, a on 0..9; 30 failed for b. Difference 20/30 of 30 problems."""
    b = [*(row(str(n), right=True) for n in range(30)), failed("30")]
    one = differences(study_of(some(10, 31, name="a"), drawn(b, name="b")))["b", "a"]
    assert (one.n, one.value) == (30, pytest.approx(2 / 3))
    assert one.low > 0.4
    assert one.finding == "gain"


def test_a_pair_of_both_kinds_is_parallel_minus_serial():
    """In either order; models of one kind are the later minus the earlier."""
    parallel, serial = some(20, name="p"), some(5, name="s", kind="serial")
    later = some(25, name="q")
    assert set(differences(study_of(parallel, serial, later))) == {
        ("p", "s"),
        ("q", "p"),
        ("q", "s"),
    }
    assert set(differences(study_of(serial, parallel))) == {("p", "s")}


def test_only_different_models_at_one_temperature_are_compared():
    """Two conditions of p and two temperatures: of 6 settings the pairs p, q with equal T, 2 conditions each."""
    settings = [
        some(3, name=name, condition=condition, temperature=temperature)
        for name, conditions in (("p", ("x", "y")), ("q", ("",)))
        for condition in conditions
        for temperature in (0.0, 1.0)
    ]
    assert set(differences(study_of(*settings))) == {
        (f"q T={temperature}", f"p T={temperature} condition={condition}")
        for temperature in (0, 1)
        for condition in "xy"
    }


def test_the_run_is_about_the_trained_models_at_equal_drawn_tokens():
    """With samples the vote of as many serial rollouts; without, one of each."""
    settings = [
        ("parallel", "parallel"),
        ("serial", "serial"),
        ("parallel-rl", "parallel"),
        ("serial-rl", "serial"),
    ]
    plain = [some(3, name=name, kind=kind) for name, kind in settings]
    assert (plain_head := study_of(*plain).headline).arm == "parallel rl"
    assert plain_head.reference == "serial rl"
    votes = [
        drawn(
            [
                row(str(n), k, right=True, drawn=30 if kind == "parallel" else 10)
                for n in range(5)
                for k in range(4)
            ],
            name=name,
            kind=kind,
        )
        for name, kind in settings
    ]
    assert study_of(*votes).headline.reference == "serial vote of=serial rl paths=3"


def serial(samples, *, each=12):
    """20 problems, right in sample 0 alone, with the same claim in all others."""
    rows = [
        row(str(n), k, right=k == 0, claim=None if k == 0 else RIGHT, drawn=each)
        for n in range(20)
        for k in range(samples)
    ]
    return drawn(rows, name="s", kind="serial", temperature=1.0)


def test_a_rollout_is_compared_with_as_many_serial_ones_as_draw_its_tokens():
    """30 tokens against 12 each: 3 of 4 samples, 36 tokens. Consensus 0 and pass@3 3/4; parallel is right on 10/20."""
    parallel = drawn([row(str(n), right=n < 10, drawn=30) for n in range(20)], name="p")
    study = study_of(parallel, serial(4))
    found = differences(study)
    assert found["p", "serial vote paths=3"].value == pytest.approx(0.5)
    assert found["p", "oracle paths=3"].value == pytest.approx(0.5 - 0.75)
    assert study.point("serial vote paths=3", "accuracy").cost.drawn == 36


def test_too_few_serial_samples_are_no_comparison():
    """30 tokens take 3 samples of 12: with two there is none."""
    parallel = drawn([row(str(n), drawn=30) for n in range(20)], name="p")
    assert differences(study_of(parallel, serial(2))) == {}


def test_a_serial_model_is_cut_at_the_critical_path():
    """Parallel has 10 of 20 at 6 critical tokens. Serial has all 20, but 15 of them with more than 6 drawn tokens."""
    parallel = drawn([row(str(n), right=n < 10, critical=6) for n in range(20)], name="p")
    lengths = [3 if n < 5 else 7 for n in range(20)]
    rows = [row(str(n), right=True, drawn=some, critical=some) for n, some in enumerate(lengths)]
    one = drawn(rows, name="s", kind="serial")
    found = differences(study_of(one, parallel), EQUAL_PATH)["p", "s"]
    assert (found.n, found.of_reference, found.value) == (20, 0.25, pytest.approx(0.25))
    other = drawn(rows, name="s", kind="serial", temperature=1.0)
    assert differences(study_of(parallel, other), EQUAL_PATH) == {}


def test_both_may_be_cut_at_the_mean_critical_path():
    """Paths of 4 and 8 tokens, mean 6: of 10 right parallel rollouts 5 are longer, serial ones are cut at 6."""
    rows = [row(str(n), right=n < 10, critical=4 if n % 2 else 8) for n in range(20)]
    other = [row(str(n), right=n < 2, drawn=9, critical=3 if n < 2 else 9) for n in range(20)]
    study = study_of(drawn(rows, name="p"), drawn(other, name="s", kind="serial"))
    assert differences(study, EQUAL_PATH)["p", "s"].value == pytest.approx(0.5 - 0.1)
    assert differences(study, BOTH_CUT)["p", "s"].value == pytest.approx(0.25 - 0.1)


def test_attempts_name_their_arms_and_failed_rollouts_are_not_judged():
    """A failed rollout has no claim; tokens behind a cut, 3 of 10, are drawn and in no sequence: 20 - 10 + 3."""
    settings = [
        drawn([row("a", right=True, claim=RIGHT, events={"wasted_tokens": 3}), failed("b")]),
        drawn([row("a")], temperature=1.0),
    ]
    study = study_of(*settings)
    first, second, third = rollout_attempts(study, settings)
    assert [one.arm for one in (first, second, third)] == ["m T=0", "m T=0", "m T=1"]
    assert (first.right, first.answer, first.cost.prompt) == (True, "2+4=6 [6, 9]", 13)
    assert (second.right, second.answer, second.extra) == (None, None, {})
    assert (second.cost.drawn, second.cost.prompt) == (999, 11)
    assert (third.right, third.answer) == (False, None)


def test_tokens_of_dropped_children_are_in_no_prompt():
    """25 drawn, 15 of them by children that failed or were cancelled: 20 in sequences hold 10 of prompts."""
    settings = [drawn([row("a", drawn=25, events={"dropped_tokens": 15})])]
    study = study_of(*settings)
    assert study.point("m", "accuracy").cost.prompt == 10


def test_only_models_that_spawn_have_a_share_of_spawned_solutions():
    """A serial model has none, not a share of 0."""
    study = study_of(some(3, name="p"), some(3, name="s", kind="serial"))
    assert [one.arm for one in study.points if one.measure == "spawned"] == ["p"]


def test_the_headline_is_at_one_temperature():
    """Greedy parallel rollouts against votes at T = 1 come after the pair at T = 1."""
    settings = [
        drawn(
            [row(str(n), k, right=True, drawn=30) for n in range(5) for k in range(2 if t else 1)],
            name=name,
            kind=name,
            temperature=t,
        )
        for name in ("parallel", "serial")
        for t in (0.0, 1.0)
    ]
    head = study_of(*settings).headline
    assert (head.arm, head.reference) == ("parallel T=1", "serial vote paths=1")


def test_a_pair_at_one_temperature_is_before_the_trained_pair_at_two():
    """Only the models before reinforcement learning have samples at both temperatures."""
    settings = [
        drawn(
            [row(str(n), k, right=True, drawn=30) for n in range(5) for k in range(2 if t else 1)],
            name=name,
            kind=name.removesuffix("-rl"),
            temperature=t,
        )
        for name, t in (
            ("parallel", 1.0),
            ("serial", 1.0),
            ("parallel-rl", 0.0),
            ("serial-rl", 1.0),
        )
    ]
    study = study_of(*settings)
    head = study.headline
    assert (head.arm, head.reference) == ("parallel", "serial vote of=serial paths=1")
    across = {(one.arm, one.reference) for one in study.differences}
    assert ("parallel rl", "serial vote of=serial rl paths=1") in across
