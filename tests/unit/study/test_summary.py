"""The summary of one policy, on groups small enough to count by hand."""

import dataclasses

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Group
from pipeline_lib.study.summary import evaluate_groups
from pipeline_lib.verdicts import Status
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=500)


def summarise(*letters, params=PARAMS, seed=7):
    groups = [judged_group(f"p{index}", text) for index, text in enumerate(letters)]
    return evaluate_groups(groups, params, seed=seed)


def test_pass_at_k_is_the_mean_over_problems():
    """1 and 2 right of 4: pass@1 (0.25 + 0.5) / 2, pass@2 (1 - 3/6 + 1 - 1/6) / 2 = 2/3."""
    summary = summarise("cwww", "ccww")
    assert summary.strict[1].value == pytest.approx(0.375)
    assert summary.strict[2].value == pytest.approx(2 / 3)


def test_lenient_stands_beside_strict():
    """One path is right in a format that was not asked for: lenient 2/4, strict 1/4."""
    summary = summarise("cfww")
    assert (summary.strict[1].value, summary.lenient[1].value) == (0.25, 0.5)


def test_our_failures_leave_the_estimate_and_are_counted():
    """2 right of 3 scored paths is 2/3, not 2/4; the fourth is one unscored path."""
    summary = summarise("ccwx")
    assert summary.strict[1].value == pytest.approx(2 / 3)
    assert (summary.num_unscored, summary.statuses[Status.VERIFIER_ERROR]) == (1, 1)


def test_a_problem_with_too_few_scored_paths_is_left_out_and_counted():
    """One scored path cannot give pass@2; the other problem alone makes the score."""
    summary = summarise("wxxe", "cccc")
    assert (summary.num_problems, summary.num_left_out) == (1, 1)
    assert summary.strict[1].value == 1
    assert summary.num_unscored == 3


def test_single_sample_accuracy_is_of_the_first_scored_path():
    """First scored paths: wrong, right (after a failure): 1 of 2, with Wilson's interval."""
    summary = summarise("wccc", "xccc")
    assert summary.single.value == 0.5
    assert (summary.single.low, summary.single.high) == pytest.approx((0.0945, 0.9055), abs=1e-4)


def test_length_and_tokens_count_drawn_paths_only():
    """Of 3 drawn paths (10, 11, 12 tokens) 1 was cut off; the engine's failure drew nothing."""
    summary = summarise("clwe")
    assert summary.truncated_fraction == pytest.approx(1 / 3)
    assert summary.mean_completion_tokens == 11
    assert (summary.prompt_tokens, summary.completion_tokens, summary.num_paths) == (15, 33, 4)


def test_majority_is_at_the_largest_k():
    """Pairs of c, c, w, w: cc 1, four ties at 1/2, ww 0: 3 / 6."""
    summary = summarise("ccww")
    assert summary.majority is not None
    assert summary.majority.value == pytest.approx(0.5)


def test_votes_count_by_the_lenient_score():
    """Pairs of f, f, w, w, f being right in another format: ff 1, four ties at 1/2, ww 0: 3 / 6, though
    no path is strictly right.
    """
    summary = summarise("ffww")
    assert summary.majority is not None
    assert summary.majority.value == pytest.approx(0.5)
    assert summary.strict[2].value == 0


def test_programs_are_not_voted_on():
    """A program is no answer that could be equal to another, so code has no maj@k."""
    group = judged_group("p", "ccww")
    code = dataclasses.replace(group.problem, gold=CodeGold(entry_point="f", tests="assert f()"))
    summary = evaluate_groups([Group(problem=code, members=group.members)], PARAMS, seed=7)
    assert summary.majority is None


def test_the_curve_holds_powers_of_two_and_ks():
    """For ks 1 and 3 the curve has 1, 2, 3, and agrees with the table where both have a point."""
    summary = summarise(
        "cwwwww", "ccwwww", params=EvaluateParams(num_paths=6, ks=(1, 3), resamples=100)
    )
    assert sorted(summary.curve) == [1, 2, 3]
    assert summary.curve[3] == summary.strict[3]


def test_the_order_of_groups_changes_no_estimate_and_the_seed_no_value():
    """Values depend on the counts alone; only the ends of intervals depend on the seed."""
    first, second = summarise("cwww", "ccww", "cccw"), summarise("cwww", "ccww", "cccw", seed=8)
    turned = summarise("cccw", "ccww", "cwww")
    assert first.strict[1].value == second.strict[1].value == turned.strict[1].value
    assert first == summarise("cwww", "ccww", "cccw")


def test_nothing_to_score_is_an_error_that_says_so():
    """No problem with two scored paths: one line with the number and the remedy."""
    with pytest.raises(BadInputError, match=r"none of 1 problems has the 2 scored paths"):
        summarise("cxxx")


def test_a_problem_that_stands_twice_is_refused():
    """Two groups of one problem would count it twice."""
    with pytest.raises(BadInputError, match="'p' has 2 groups"):
        evaluate_groups([judged_group("p", "ccww")] * 2, PARAMS, seed=7)
