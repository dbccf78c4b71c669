"""Judged paths as series and differences, on groups small enough to count by hand."""

import dataclasses

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Group
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.policies import (
    FORMAT,
    LENIENT,
    Flips,
    compare_groups,
    score_policy,
    vote_series,
)
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import Arm
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=500)
NAMES = [f"p{index}" for index in range(20)]


def scored(*letters, params=PARAMS):
    groups = [judged_group(f"p{index}", text) for index, text in enumerate(letters)]
    return score_policy(Arm(base="policy"), groups, params)


def study_of(*letters, seed=7):
    groups = [judged_group(f"p{index}", text) for index, text in enumerate(letters)]
    return compare_groups({"policy": groups}, PARAMS, seed=seed).study


def compared(base, policy):
    groups = {
        name: [judged_group(problem_id, text) for problem_id, text in letters.items()]
        for name, letters in (("base", base), ("policy", policy))
    }
    return compare_groups(groups, PARAMS, seed=7)


def difference(found, measure="pass@1", subset="all"):
    (one,) = [d for d in found.study.differences if (d.measure, d.subset) == (measure, subset)]
    return one


def test_pass_at_k_is_the_mean_over_problems():
    """1 and 2 right of 4: pass@1 (0.25 + 0.5) / 2, pass@2 (1 - 3/6 + 1 - 1/6) / 2 = 2/3."""
    found = study_of("cwww", "ccww")
    assert found.point("policy", "pass@1").value == pytest.approx(0.375)
    assert found.point("policy", "pass@2").value == pytest.approx(2 / 3)


def test_lenient_is_a_subset_of_its_own():
    """One path is right in a format that was not asked for: lenient 2/4, strict 1/4."""
    found = scored("cfww")
    assert found.find("pass@1").values["p0"] == 0.25
    assert found.find("pass@1", LENIENT).values["p0"] == 0.5


def test_our_failures_leave_the_estimate_and_are_counted():
    """2 right of 3 scored paths is 2/3, not 2/4; the fourth is one unscored path."""
    found = scored("ccwx")
    assert found.find("pass@1").values["p0"] == pytest.approx(2 / 3)
    assert (found.counts.unscored, found.counts.statuses["verifier_error"]) == (1, 1)


def test_a_problem_with_too_few_scored_paths_is_left_out_and_counted():
    """One scored path cannot give pass@2; the other problem alone makes the score."""
    groups = [judged_group("p0", "wxxe"), judged_group("p1", "cccc")]
    study = compare_groups({"policy": groups}, PARAMS, seed=7).study
    assert (study.point("policy", "pass@1").value, study.point("policy", "pass@1").n) == (1, 1)
    assert [(one.reason, one.n) for one in study.left_out] == [
        ("policy: fewer scored paths than the largest k", 1)
    ]


def test_accuracy_is_of_the_first_scored_path():
    """First scored paths: wrong, right (after a failure): 1 of 2, with Wilson's interval."""
    point = study_of("wccc", "xccc").point("policy", "accuracy")
    assert point.value == 0.5
    assert (point.low, point.high) == pytest.approx((0.0945, 0.9055), abs=1e-4)


def test_length_and_tokens_count_drawn_paths_only():
    """Of 3 drawn paths (10, 11, 12 tokens) 1 was cut off; the engine's failure drew nothing."""
    counts = scored("clwe").counts
    assert counts.truncated == pytest.approx(1 / 3)
    assert counts.mean_tokens == 11
    assert (counts.prompt_tokens, counts.completion_tokens, counts.paths) == (15, 33, 4)


def test_two_paths_cost_their_tokens_and_the_longer_path():
    """Of 10, 11, 12, 13 tokens two cost 23 on average; the longer of a pair has 37/3; a prompt is read once."""
    cost = scored("ccww").find("pass@2").costs["p0"]
    longest = (11 + 12 + 12 + 13 + 13 + 13) / 6
    assert cost == Cost(drawn=23, prompt=5, critical=longest, longest=5 + longest)


@pytest.mark.parametrize("letters", ["ccww", "ffww"])
def test_majority_is_at_the_largest_k_by_the_lenient_score(letters):
    """Pairs of two right and two wrong answers: both right 1, four ties at 1/2, both wrong 0: 3 / 6."""
    assert scored(letters).find("maj@2").values["p0"] == pytest.approx(0.5)


def test_votes_are_arms_of_two_four_and_more_paths():
    """Of four paths: votes of 2 and of 4; the vote of all is a tie."""
    groups = [judged_group("p", "ccww")]
    arm = Arm(base="policy")
    two, four = vote_series(arm, score_policy(arm, groups, PARAMS), groups)
    assert (two.arm.settings["paths"], four.arm.settings["paths"]) == (2, 4)
    assert four.values == {"p": 0.5}
    assert four.costs["p"].drawn == 46


def test_programs_are_not_voted_on():
    """A program is no answer that could be equal to another, so code has no maj@k."""
    group = judged_group("p", "ccww")
    code = dataclasses.replace(group.problem, gold=CodeGold(entry_point="f", tests="assert f()"))
    groups = [Group(problem=code, members=group.members)]
    arm = Arm(base="policy")
    found = score_policy(arm, groups, PARAMS)
    assert not [one for one in found.series if one.measure.startswith("maj")]
    assert vote_series(arm, found, groups) == []


def test_the_strict_score_has_powers_of_two_and_ks():
    """For ks 1 and 3: 1, 2, 3; the lenient score has the ks alone."""
    found = scored("cwwwww", params=EvaluateParams(num_paths=6, ks=(1, 3), resamples=100))
    measures = [(one.measure, one.subset) for one in found.series]
    assert [name for name, subset in measures if subset == "all"][:3] == [
        "pass@1",
        "pass@2",
        "pass@3",
    ]
    assert [name for name, subset in measures if subset == LENIENT] == ["pass@1", "pass@3"]


def test_the_seed_changes_the_ends_of_intervals_alone():
    """Values depend on the counts."""
    first, second = (study_of("cwww", "ccww", "cccw", seed=seed) for seed in (7, 8))
    assert first.points[0].value == second.points[0].value
    assert first == study_of("cwww", "ccww", "cccw")


def test_nothing_to_score_is_an_error_that_says_so():
    """No problem with two scored paths: one line with the number and the remedy."""
    with pytest.raises(BadInputError, match=r"none of 1 problems has the 2 scored paths"):
        scored("cxxx")


def test_a_problem_that_stands_twice_is_refused():
    """Two groups of one problem would count it twice."""
    with pytest.raises(BadInputError, match="'p' has 2 groups"):
        score_policy(Arm(base="policy"), [judged_group("p", "ccww")] * 2, PARAMS)


def test_differences_are_within_problems():
    """pass@1 from (1/4, 1/4) to (3/4, 2/4): mean of +0.5 and +0.25 is +0.375."""
    one = difference(compared({"a": "cwww", "b": "wcww"}, {"a": "cccw", "b": "ccww"}))
    assert one.value == pytest.approx(0.375)
    assert (one.of_reference, one.of_arm) == (0.25, 0.625)


def test_problems_are_paired_by_id():
    """Only b is in both, and b alone makes the difference."""
    one = difference(compared({"a": "cccc", "b": "wwww"}, {"c": "wwww", "b": "cccc"}))
    assert (one.n, one.value) == (1, 1)


def test_a_gain_of_format_alone_is_told_apart():
    """20 problems go from 2 right in the wrong format to 2 right: strict +0.5, lenient 0."""
    found = compared(dict.fromkeys(NAMES, "ffww"), dict.fromkeys(NAMES, "ccww"))
    assert difference(found).finding is DifferenceFinding.GAIN
    lenient = difference(found, subset=LENIENT)
    assert (lenient.value, lenient.finding) == (0, DifferenceFinding.NO_SIGNIFICANT_GAIN)
    assert difference(found, subset=FORMAT).value == 0.5


def test_sharpening_is_seen_as_lost_coverage():
    """All problems at 1 of 4; then 2 are sure and 18 hopeless: pass@2 falls from 0.5 to 0.1."""
    sharp = {name: "cccc" if index < 2 else "wwww" for index, name in enumerate(NAMES)}
    one = difference(compared(dict.fromkeys(NAMES, "cwww"), sharp), measure="pass@2")
    assert one.value == pytest.approx(-0.4)
    assert one.finding is DifferenceFinding.SIGNIFICANTLY_LOWER


def test_flips():
    """a: wrong to right, b: right to wrong, c: unchanged."""
    flips = compared(
        {"a": "wwwc", "b": "cccw", "c": "cccc"}, {"a": "cccw", "b": "wwwc", "c": "cccc"}
    ).flips
    assert [name for name, _, _ in flips.gained] == ["a"]
    assert [name for name, _, _ in flips.lost] == ["b"]


def test_nothing_in_common_is_an_error():
    """Two splits cannot be compared, whatever their scores."""
    with pytest.raises(BadInputError, match="share no problem"):
        compared({"a": "cccc"}, {"b": "cccc"})


def test_flips_cross_one_half_and_come_largest_first():
    """0.1 to 0.9 and 0.4 to 0.6 are gained, 0.9 to 0 is lost; one half is neither side."""
    before = {"a": 0.4, "b": 0.1, "c": 0.9, "d": 0.5, "e": 0.4}
    after = {"a": 0.6, "b": 0.9, "c": 0.0, "d": 0.9, "e": 0.5}
    flips = Flips.between(before, after)
    assert [name for name, _, _ in flips.gained] == ["b", "a"]
    assert [name for name, _, _ in flips.lost] == ["c"]
