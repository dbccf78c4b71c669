"""Fusion of verified rewards and scores: numbers by hand, and laws of missing scores."""

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.systems.classmate.fusion import Fused, fuse

BASE = [1.0, 1.0, 0.0, 0.0]
X = [1.0, 0.5, 0.5, 0.0]
Y = [0.0, 0.5, 1.0, 0.0]
NONE = [None] * 4


def fused(base, scores, *, empty=None, group_size=None, **params) -> Fused:
    return fuse(
        base,
        scores,
        empty or dict.fromkeys(scores, [None] * len(base)),
        params=ClassmateParams(**params),
        group_size=group_size or len(base),
    )


def test_the_mean_over_peers():
    """(1 + 0)/2, (1/2 + 1/2)/2, (1/2 + 1)/2, 0; additive with w = 1/2: 1 + 1/4, 1 + 1/4, 0 + 3/8, 0."""
    found = fused(BASE, {"x": X, "y": Y})
    assert found.bonus == [0.5, 0.5, 0.75, 0.0]
    assert found.reward == [1.25, 1.25, 0.375, 0.0]


def test_the_maximum_over_peers():
    """1, 1/2, 1, 0; additive with w = 1/10."""
    found = fused(BASE, {"x": X, "y": Y}, aggregation="max", classmate_reward_weight=0.1)
    assert found.bonus == [1.0, 0.5, 1.0, 0.0]
    assert found.reward == pytest.approx([1.1, 1.05, 0.1, 0.0])


def test_convex():
    """w = 1/4: 3/4 base + 1/4 b with b = 1, 1/2, 1/2, 0."""
    found = fused(BASE, {"x": X}, fusion="convex", classmate_reward_weight=0.25)
    assert found.reward == [1.0, 0.875, 0.125, 0.0]


@pytest.mark.parametrize(
    ("gate", "bonus", "reward"),
    [
        ("always", [1.0, 0.5, 0.5, 0.0], [1.5, 1.25, 0.25, 0.0]),
        ("when_right", [1.0, 0.5, 0.0, 0.0], [1.5, 1.25, 0.0, 0.0]),
        ("negative_when_wrong", [1.0, 0.5, -0.5, 0.0], [1.5, 1.25, -0.25, 0.0]),
    ],
)
def test_gates(gate, bonus, reward):
    """The first two paths are right; w = 1/2."""
    found = fused(BASE, {"x": X}, gate=gate)
    assert (found.bonus, found.reward) == (bonus, reward)


@pytest.mark.parametrize(
    ("gate", "bonus"),
    [
        ("always", [0.5, -0.5, 0.5, -0.5]),
        ("when_right", [0.5, -0.5, 0.0, 0.0]),
        ("negative_when_wrong", [0.5, -0.5, -0.5, 0.0]),
    ],
)
def test_gates_of_a_relative_bonus(gate, bonus):
    """Success 1, 0, 1, 0 with the prefix and 1/2 without: a wrong path gains nothing by misleading a peer."""
    found = fused(
        BASE, {"x": [1.0, 0.0, 1.0, 0.0]}, empty={"x": [0.5] * 4}, relative=True, gate=gate
    )
    assert found.bonus == bonus


def test_relative_takes_the_success_without_the_prefix():
    """Two problems: without a prefix x succeeds with 1/2 and 0, y with 1/2 and 1.

    Mean: 1/2 - 1/2, 1/2 - 1/2, 3/4 - 1/2, 0 - 1/2.
    """
    empty = {"x": [0.5, 0.5, 0.0, 0.0], "y": [0.5, 0.5, 1.0, 1.0]}
    found = fused(BASE, {"x": X, "y": Y}, empty=empty, relative=True, group_size=2)
    assert found.bonus == [0.0, 0.0, 0.25, -0.5]


def test_relative_with_the_maximum():
    """The best with the prefix less the best without: 1 - 1/2, 1/2 - 1/2, 1 - 1, 0 - 1."""
    empty = {"x": [0.5, 0.5, 0.0, 0.0], "y": [0.5, 0.5, 1.0, 1.0]}
    found = fused(
        BASE, {"x": X, "y": Y}, empty=empty, relative=True, aggregation="max", group_size=2
    )
    assert found.bonus == [0.5, 0.0, 0.0, -1.0]


def test_relative_cancels_within_a_group():
    """The deviations from the group's mean are those of the plain bonus, by mean and by maximum."""
    empty = {"x": [0.25] * 4, "y": [0.75] * 4}
    for aggregation in ("mean", "max"):
        plain = fused(BASE, {"x": X, "y": Y}, aggregation=aggregation).bonus
        relative = fused(
            BASE, {"x": X, "y": Y}, empty=empty, relative=True, aggregation=aggregation
        ).bonus
        assert [b - fmean(relative) for b in relative] == pytest.approx(
            [b - fmean(plain) for b in plain]
        )


def test_a_missing_score_is_the_mean_of_the_peer_in_the_group():
    """x: 1, none, 0 has the mean 1/2, in the first group alone; in the second all are 1."""
    scores = {"x": [1.0, None, 0.0, 1.0, None, 1.0]}
    found = fused([1.0] * 6, scores, group_size=3)
    assert found.bonus == [1.0, 0.5, 0.0, 1.0, 1.0, 1.0]


def test_a_missing_score_of_one_peer_beside_another():
    """x is missing for the second path: its mean 1/3 takes its place, (1/3 + 1/2)/2 = 5/12."""
    found = fused(BASE, {"x": [1.0, None, 0.0, 0.0], "y": Y})
    assert found.bonus[1] == pytest.approx(5 / 12)


@pytest.mark.parametrize(("aggregation", "bonus"), [("mean", 0.5), ("max", 1.0)])
def test_a_path_without_any_score_has_the_mean_bonus(aggregation, bonus):
    """x: 1, 0, none and y: 0, 1, none. Means 1/2, 1/2, maxima 1, 1: the third path has their mean, not the
    maximum 1/2 of the peers' means.
    """
    scores = {"x": [1.0, 0.0, None], "y": [0.0, 1.0, None]}
    assert fused([1.0] * 3, scores, aggregation=aggregation).bonus == [bonus] * 3


def test_a_missing_score_in_a_relative_draw_of_two_problems():
    """Scores 1, none with 1/2 and 1/4 without a prefix: the lift of the first, 1/2, is the mean lift.

    So the second path has the bonus 1/2, though its problem is the harder one.
    """
    found = fused([1.0, 0.0], {"x": [1.0, None]}, empty={"x": [0.5, 0.25]}, relative=True)
    assert found.bonus == [0.5, 0.5]


def test_a_peer_without_any_score_in_a_group_is_left_out_there():
    """y has none in the first group, where the bonus is x alone, and 1 in the second: (0 + 1)/2."""
    scores = {"x": [1.0, 0.5, 0.0, 0.0], "y": [None, None, 1.0, 1.0]}
    assert fused(BASE, scores, group_size=2).bonus == [1.0, 0.5, 0.5, 0.5]


def test_relative_without_the_success_of_the_empty_prefix():
    """It is missing for the whole problem, so the peer is left out, and the reward is the base."""
    found = fused(BASE, {"x": X}, empty={"x": NONE}, relative=True)
    assert (found.bonus, found.reward) == (NONE, BASE)


@pytest.mark.parametrize("fusion", ["additive", "convex"])
def test_a_group_without_any_score_has_the_base_alone(fusion):
    """Not (1 - w) base in the convex fusion: nothing takes the place of the other part."""
    scores = {"x": [None, None, 1.0, 0.0], "y": NONE}
    found = fused(BASE, scores, group_size=2, fusion=fusion, classmate_reward_weight=0.5)
    assert found.bonus[:2] == [None, None]
    assert found.reward[:2] == [1.0, 1.0]
    assert found.reward[2] > 0


def test_a_path_without_a_verified_reward_stays_without():
    """Its score 1 does not count in the mean of the others either: 0 and none give 0, 0."""
    found = fused([None, 1.0, 0.0], {"x": [1.0, 0.0, None]})
    assert found.bonus == [None, 0.0, 0.0]
    assert found.reward == [None, 1.0, 0.0]


def test_weight_zero_is_the_base_to_the_last_bit():
    """Also in the convex fusion, and where the bonus is negative: no zero becomes -0."""
    base = [1.0, 0.0, None, 0.0]
    for fusion in ("additive", "convex"):
        found = fused(
            base, {"x": X}, fusion=fusion, gate="negative_when_wrong", classmate_reward_weight=0.0
        )
        assert str(found.reward) == str(base)


success = st.integers(0, 4).map(lambda quarters: quarters / 4)
maybe = st.one_of(st.none(), success)
verified = st.sampled_from([0.0, 1.0, None])


@st.composite
def draws(draw: st.DrawFn, num_groups: int = 1):
    """Groups of up to six paths with scores by up to three peers."""
    size, peers = num_groups * draw(st.integers(1, 6)), draw(st.integers(1, 3))
    base = draw(st.lists(verified, min_size=size, max_size=size))
    column = st.lists(maybe, min_size=size, max_size=size)
    return base, {f"peer{number}": draw(column) for number in range(peers)}


@given(draws(), st.sampled_from(["mean", "max"]), st.sampled_from(["additive", "convex"]))
def test_bounds_and_gaps(draw, aggregation, fusion):
    """None stays None; another reward is within [0, 1 + w] (convex: [0, 1]), and a wrong path's within w."""
    base, scores = draw
    found = fused(base, scores, aggregation=aggregation, fusion=fusion, classmate_reward_weight=0.5)
    for place, given_base in enumerate(base):
        reward = found.reward[place]
        assert (reward is None) == (given_base is None)
        if given_base is not None:
            assert 0 <= reward <= (1.0 if fusion == "convex" else 1.5)
            assert given_base == 1 or reward <= 0.5


@given(
    st.lists(st.tuples(success, success), min_size=1, max_size=6),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from(["mean", "max"]),
)
def test_a_missing_score_leaves_the_bonus_at_the_mean_of_the_group(
    mates, place, relative, aggregation
):
    """A path without any score among mates with all scores has the mean of their bonuses."""
    place = min(place, len(mates))
    rows = [*mates[:place], (None, None), *mates[place:]]
    scores = {name: [row[number] for row in rows] for number, name in enumerate("xy")}
    empty = {"x": [0.25] * len(rows), "y": [0.5] * len(rows)}
    params = {"relative": relative, "aggregation": aggregation}
    bonus = fused([1.0] * len(rows), scores, empty=empty, **params).bonus
    others = [one for number, one in enumerate(bonus) if number != place]
    assert bonus[place] == pytest.approx(fmean(others))


@pytest.mark.parametrize("aggregation", ["mean", "max"])
def test_a_path_without_room_has_the_smallest_score(aggregation):
    """Scores 1, 1, 0 and none for want of room: the bonus is 0, not the mean 2/3."""
    found = fuse(
        [1.0, 0.0, 0.0, 0.0],
        {"x": [1.0, 1.0, 0.0, None]},
        {"x": [None] * 4},
        params=ClassmateParams(aggregation=aggregation),
        group_size=4,
        crowded={"x": [False, False, False, True]},
    )
    assert found.bonus == [1.0, 1.0, 0.0, 0.0]


def test_a_wrong_path_without_room_has_the_largest_score_if_bonuses_are_negated():
    """The penalty is then the largest of the group, so a longer prefix does not lower it."""
    found = fuse(
        [0.0, 0.0, 1.0, 0.0, 1.0],
        {"x": [1.0, 0.5, 1.0, None, None]},
        {"x": [None] * 5},
        params=ClassmateParams(gate="negative_when_wrong"),
        group_size=5,
        crowded={"x": [False, False, False, True, True]},
    )
    assert found.bonus == [-1.0, -0.5, 1.0, -1.0, 0.5]


def test_a_group_without_any_score_is_not_paid_for_want_of_room():
    """No score is known: the reward is the verified one."""
    found = fuse(
        [1.0, 0.0],
        {"x": [None, None]},
        {"x": [None] * 2},
        params=ClassmateParams(),
        group_size=2,
        crowded={"x": [True, False]},
    )
    assert (found.bonus, found.reward) == ([None, None], [1.0, 0.0])


@given(draws(), st.sampled_from(["mean", "max"]))
def test_a_peer_without_scores_changes_nothing(draw, aggregation):
    """Its failure in a group leaves the bonuses of the others' scores."""
    base, scores = draw
    silent = scores | {"silent": [None] * len(base)}
    assert fused(base, silent, aggregation=aggregation) == fused(
        base, scores, aggregation=aggregation
    )


@given(draws(num_groups=2), st.sampled_from(["mean", "max"]))
def test_groups_do_not_touch_each_other(draw, aggregation):
    """The bonuses of a group are those that it has alone."""
    base, scores = draw
    size = len(base) // 2
    joined = fused(base, scores, group_size=size, aggregation=aggregation)
    first = {name: column[:size] for name, column in scores.items()}
    assert joined.bonus[:size] == fused(base[:size], first, aggregation=aggregation).bonus
