"""Success of peers by problem and set of paths, its spread among right prefixes, and paired differences."""

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.summary import evaluate_groups
from pipeline_lib.systems.classmate.evaluation.figures import (
    MEAN,
    Estimates,
    compare_policies,
    failed_share,
    policy_figures,
    problem_means,
    right_spread,
)
from tests.unit.study.judged_groups import judged_group
from tests.unit.systems.classmate.evaluation.cut_problems import SHARE, cut_path, scores_of

PEER = "peer"
PARAMS = EvaluateParams(num_paths=2, ks=(1,), resamples=200)
ESTIMATES = Estimates(params=PARAMS, seed=7)
PATHS = [
    cut_path("p", "a\n", right=True),
    cut_path("p", "b\n", right=False),
    cut_path("q", "c\n", right=False),
]
SCORES = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "cw", ("q", "c\n"): "w."})


def summary(letters):
    return evaluate_groups(
        [judged_group(name, text) for name, text in letters.items()], PARAMS, seed=7
    )


@pytest.mark.parametrize(
    ("which", "means"),
    [("all", {"p": 0.75, "q": 0.0}), ("right", {"p": 1.0}), ("wrong", {"p": 0.5, "q": 0.0})],
)
def test_success_is_a_mean_over_prefixes_then_problems(which, means):
    """p: (2/2 + 1/2) / 2; q: 0 of 1 known; a problem without such paths is left out."""
    assert problem_means(PATHS, PEER, (SHARE,), SCORES, which=which) == means


def test_a_continuation_without_a_score_is_no_failure_of_the_prefix():
    """With both continuations of q missing, q is left out instead of counted as 0."""
    scores = SCORES | scores_of(PEER, {("q", "c\n"): ".."})
    assert problem_means(PATHS, PEER, (SHARE,), scores) == {"p": 0.75}
    assert failed_share(scores, PEER) == pytest.approx(2 / 6)


def test_the_spread_of_right_prefixes_is_the_covariance_of_halves():
    """Prefixes of success 1 and 0, each equal in both halves: covariance 1/2 (n - 1 = 1), deviation .707."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", "b\n", right=True)]
    scores = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "ww"})
    found = right_spread(paths, PEER, SHARE, scores)
    assert found is not None
    assert (found.sd, found.mean, found.problems) == (pytest.approx(0.5**0.5), 0.5, 1)


def test_noise_of_the_draws_is_no_spread():
    """Halves that disagree (right then wrong, wrong then right): the covariance is -1/2, the spread 0."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", "b\n", right=True)]
    scores = scores_of(PEER, {("p", "a\n"): "cw", ("p", "b\n"): "wc"})
    found = right_spread(paths, PEER, SHARE, scores)
    assert found is not None
    assert found.sd == 0


@pytest.mark.parametrize(("second", "right"), [("a\n", True), ("b\n", False)])
def test_one_right_prefix_has_no_spread(second, right):
    """An equal prefix, or one of a wrong path alone, is no second one."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", second, right=right)]
    scores = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "ww"})
    assert right_spread(paths, PEER, SHARE, scores) is None


def test_shuffled_prefixes_are_those_of_the_next_problem():
    """The first path of q is asked for p, and that of p for q: success 1 and 0, mean 1/2."""
    scores = SCORES | scores_of(PEER, {("p", "c\n"): "cc", ("q", "a\n"): "ww"})
    figures = policy_figures(
        "actor", summary({"p": "cw", "q": "ww"}), PATHS, [PEER], scores, ESTIMATES
    )
    moved = figures.shuffled[PEER][str(SHARE)]
    assert moved is not None
    assert moved.value == 0.5
    assert figures.success[PEER][MEAN]["all"].value == pytest.approx(0.375)


def test_differences_are_taken_on_problems_that_both_have():
    """Right paths: the first policy has some on p alone, the second on both; p goes from 1 to 0."""
    after = [cut_path("p", "d\n", right=True), cut_path("q", "e\n", right=True)]
    scores = SCORES | scores_of(PEER, {("p", "d\n"): "ww", ("q", "e\n"): "cc"})
    [found] = compare_policies(
        {"plain": summary({"p": "cw", "q": "ww"}), "actor": summary({"p": "cw", "q": "cw"})},
        {"plain": PATHS, "actor": after},
        [PEER],
        scores,
        ESTIMATES,
    )
    right, every = (found.success[PEER][str(SHARE)][which] for which in ("right", "all"))
    assert right is not None
    assert right.interval.value == -1
    assert every is not None
    assert every.interval.value == pytest.approx((-0.75 + 1) / 2)
    assert found.pass_at[1].interval.value == 0.25
