"""Series and contrasts of an evaluation: success of peers by problem and set of paths, its spread, attempts."""

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.attempts import Cost
from pipeline_lib.systems.classmate.evaluation.prefixes import (
    failed_share,
    right_spread,
)
from pipeline_lib.systems.classmate.evaluation.study import (
    Judged,
    Policy,
    classmate_study,
    contrasts,
    policy_series,
)
from pipeline_lib.systems.classmate.peer import HELD_OUT, TRAINING
from tests.unit.study.judged_groups import judged_group
from tests.unit.systems.classmate.evaluation.cut_problems import SHARE, cut_path, scores_of

PEER = "peer"
PARAMS = EvaluateParams(num_paths=2, ks=(1,), resamples=200)
PATHS = [
    cut_path("p", "a\n", right=True),
    cut_path("p", "b\n", right=False, sample=1),
    cut_path("q", "c\n", right=False),
]
SCORES = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "cw", ("q", "c\n"): "w."})


def policy(name, letters, paths=PATHS):
    groups = [judged_group(problem, text) for problem, text in letters.items()]
    return Policy(name=name, groups=groups, paths=paths)


def judged(*policies, scores=SCORES, peers=None, controls=("plain",)):
    return Judged(
        policies=policies,
        controls=controls,
        peers=peers or {PEER: HELD_OUT},
        scores=scores,
        keep=(SHARE,),
    )


def study_of(*policies, **changes):
    return classmate_study(
        judged(*policies, **changes),
        PARAMS,
        seed=7,
        provenance={},
        is_blind=False,
        draws_without_peers=None,
    )


PLAIN = policy("plain", {"p": "cw", "q": "ww"})


@pytest.mark.parametrize(
    ("subset", "means"),
    [
        ("all", {"p": 0.75, "q": 0.0}),
        ("right paths", {"p": 1.0}),
        ("wrong paths", {"p": 0.5, "q": 0.0}),
    ],
)
def test_success_is_a_mean_over_prefixes_then_problems(subset, means):
    """p: (2/2 + 1/2) / 2; q: 0 of 1 known; a problem without such paths is left out."""
    _, *success = policy_series(PLAIN, judged(PLAIN), (1,))
    assert {one.measure for one in success} == {HELD_OUT}
    assert [one.values for one in success if one.subset == subset] == [means]


def test_a_continuation_without_a_score_is_no_failure_of_the_prefix():
    """With both continuations of q missing, q is left out instead of counted as 0."""
    scores = SCORES | scores_of(PEER, {("q", "c\n"): ".."})
    found = policy_series(PLAIN, judged(PLAIN, scores=scores), (1,))
    assert found[1].values == {"p": 0.75}
    assert failed_share(scores, PEER) == pytest.approx(2 / 6)


@pytest.mark.parametrize(("letters", "sd"), [(("cc", "ww"), 0.5**0.5), (("cw", "wc"), 0.0)])
def test_the_spread_of_right_prefixes_is_the_covariance_of_halves(letters, sd):
    """Success 1 and 0, equal in both halves: covariance 1/2 (n - 1 = 1). Halves that disagree: -1/2, noise alone."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", "b\n", right=True)]
    scores = scores_of(PEER, {("p", "a\n"): letters[0], ("p", "b\n"): letters[1]})
    found = right_spread(paths, PEER, SHARE, scores)
    assert found == {"sd": pytest.approx(sd), "mean": 0.5, "problems": 1}


@pytest.mark.parametrize(("second", "right"), [("a\n", True), ("b\n", False)])
def test_one_right_prefix_has_no_spread(second, right):
    """An equal prefix, or one of a wrong path alone, is no second one."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", second, right=right)]
    scores = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "ww"})
    assert right_spread(paths, PEER, SHARE, scores) is None


def test_prefixes_of_another_problem_and_none_are_arms():
    """The first path of q is asked for p, and that of p for q: success 1 and 0, mean 1/2. Without one: p alone, 0."""
    asked = {("p", "c\n"): "cc", ("q", "a\n"): "ww", ("p", ""): "ww"}
    study, _, _ = study_of(
        PLAIN, policy("classmate", {"p": "cw"}), scores=SCORES | scores_of(PEER, asked)
    )
    assert study.point("shuffled of=peers", HELD_OUT).value == 0.5
    assert study.point("empty", HELD_OUT).value == 0.0


def test_differences_are_taken_on_problems_that_both_have():
    """Right paths: plain has some on p alone, the other policy on both; p goes from 1 to 0. This is the headline."""
    after = [cut_path("p", "d\n", right=True), cut_path("q", "e\n", right=True)]
    scores = SCORES | scores_of(PEER, {("p", "d\n"): "ww", ("q", "e\n"): "cc"})
    actor = policy("classmate", {"p": "cw", "q": "cw"}, after)
    study, _, _ = study_of(PLAIN, actor, scores=scores)
    right, accuracy, every = study.differences[:3]
    assert (right.arm, right.reference, right.subset) == (
        "peers peer=peer",
        "plain peer=peer",
        "right paths",
    )
    assert (right.value, right.n) == (-1, 1)
    assert (accuracy.measure, accuracy.value) == ("pass@1", 0.25)
    assert every.value == pytest.approx((-0.75 + 1) / 2)
    assert [one.p_adjusted is None for one in (right, accuracy, every)] == [False, False, True]


def test_gains_are_tested_in_two_families_over_each_control():
    """Accuracy and held-out peers are one family, peers of the training another; the base is no control."""
    names = ("base", "hashed", "plain", "actor")
    given = judged(
        *(policy(name, {"p": "cw"}) for name in names),
        peers={"asked": TRAINING, "other": HELD_OUT},
        controls=("plain", "hashed"),
    )
    own = {one.name: policy_series(one, given, (1,)) for one in given.policies}
    found = contrasts(given, own)
    tested = [(one.family, one.candidate.measure) for one in found if one.family]
    assert tested == [
        (f"{family} over {control}", measure)
        for control in ("plain", "hashed")
        for family, measure in (
            ("gains", HELD_OUT),
            ("training peers", TRAINING),
            ("gains", "pass@1"),
        )
    ]
    assert found[0].family == "gains over plain"
    assert found[0].seed_names == ("classmate", "difference", "plain", "actor", "other", "right")


def test_several_shares_are_arms_beside_their_mean():
    """With one share the mean over all shares is the figure of that share."""
    one = judged(PLAIN)
    two = Judged(
        policies=one.policies, controls=(), peers=one.peers, scores=SCORES, keep=(SHARE, SHARE)
    )
    settings = [each.arm.settings for each in policy_series(PLAIN, two, (1,))]
    assert settings[1] == {"peer": PEER}
    assert {"peer": PEER, "share": SHARE} in settings
    assert all("share" not in each.arm.settings for each in policy_series(PLAIN, one, (1,)))


def test_attempts_have_the_success_of_peers():
    """Of the paths whose prefixes were continued: the first two of p, the first of q."""
    study, _, attempts = study_of(PLAIN, policy("classmate", {"p": "cw"}))
    assert study.compute["peers"][PEER]["held_out"]
    found = [(one.arm, one.problem_id, one.sample, one.right, dict(one.extra)) for one in attempts]
    assert found[:4] == [
        ("plain", "p", 0, True, {"peer share=0.5": 1.0}),
        ("plain", "p", 1, False, {"peer share=0.5": 0.5}),
        ("plain", "q", 0, False, {"peer share=0.5": 0.0}),
        ("plain", "q", 1, False, {}),
    ]
    assert isinstance(attempts[0].cost, Cost)


def test_problems_without_enough_scored_paths_are_left_out():
    """With one scored path where pass@2 needs two; a policy without any such problem is refused."""
    few = {"p": "cx", "q": "cw"}
    made = policy_series(policy("plain", few), judged(PLAIN), (1, 2))
    assert made[0].values == {"q": 0.5}
    with pytest.raises(BadInputError, match=r"none of 1 problems has the 2 scored paths"):
        policy_series(policy("plain", {"p": "cx"}), judged(PLAIN), (1, 2))
