"""Fusion of verified rewards and scores, and bonuses that a hash or chance deals: numbers by hand, and laws."""

from collections import defaultdict
from functools import partial
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.fusion import (
    DealtPath,
    Fused,
    deal_bonus,
    deal_by_hash,
    fuse,
)
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer

BASE = [1.0, 1.0, 0.0, 0.0]
X = [1.0, 0.5, 0.5, 0.0]
Y = [0.0, 0.5, 1.0, 0.0]
NONE = [None] * 4


def fused(base, scores, *, empty=None, group_size=None, crowded=None, **params) -> Fused:
    return fuse(
        base,
        scores,
        empty or dict.fromkeys(scores, [None] * len(base)),
        params=ClassmateParams(**params),
        group_size=group_size or len(base),
        crowded=crowded,
    )


BOTH = {"x": X, "y": Y}
RELATIVE = {"relative": True, "empty": {"x": [0.5, 0.5, 0.0, 0.0], "y": [0.5, 0.5, 1.0, 1.0]}}
HALF = {"relative": True, "empty": {"x": [0.5] * 4}}
USED = {"x": [1.0, 0.0, 1.0, 0.0]}


@pytest.mark.parametrize(
    ("base", "scores", "options", "bonus", "reward"),
    [
        # (1 + 0)/2, (1/2 + 1/2)/2, (1/2 + 1)/2, 0; additive with w = 1/2
        (BASE, BOTH, {}, [0.5, 0.5, 0.75, 0.0], [1.25, 1.25, 0.375, 0.0]),
        (
            *(BASE, BOTH, {"aggregation": "max", "classmate_reward_weight": 0.1}),
            *([1.0, 0.5, 1.0, 0.0], [1.1, 1.05, 0.1, 0.0]),
        ),
        # 3/4 base + 1/4 b
        (
            *(BASE, {"x": X}, {"fusion": "convex", "classmate_reward_weight": 0.25}),
            *(X, [1.0, 0.875, 0.125, 0.0]),
        ),
        # the first two paths are right
        (BASE, {"x": X}, {"gate": "always"}, [1.0, 0.5, 0.5, 0.0], [1.5, 1.25, 0.25, 0.0]),
        (BASE, {"x": X}, {"gate": "when_right"}, [1.0, 0.5, 0.0, 0.0], [1.5, 1.25, 0.0, 0.0]),
        (
            *(BASE, {"x": X}, {"gate": "negative_when_wrong"}),
            *([1.0, 0.5, -0.5, 0.0], [1.5, 1.25, -0.25, 0.0]),
        ),
        # success 1, 0, 1, 0 with the prefix and 1/2 without: a wrong path gains nothing by misleading a peer
        (BASE, USED, HALF | {"gate": "always"}, [0.5, -0.5, 0.5, -0.5], None),
        (BASE, USED, HALF | {"gate": "when_right"}, [0.5, -0.5, 0.0, 0.0], None),
        (BASE, USED, HALF | {"gate": "negative_when_wrong"}, [0.5, -0.5, -0.5, 0.0], None),
        # two problems; mean: 1/2 - 1/2, 1/2 - 1/2, 3/4 - 1/2, 0 - 1/2
        (BASE, BOTH, RELATIVE | {"group_size": 2}, [0.0, 0.0, 0.25, -0.5], None),
        # the best with the prefix less the best without: 1 - 1/2, 1/2 - 1/2, 1 - 1, 0 - 1
        (
            *(BASE, BOTH, RELATIVE | {"group_size": 2, "aggregation": "max"}),
            *([0.5, 0.0, 0.0, -1.0], None),
        ),
    ],
)
def test_fusion_by_hand(base, scores, options, bonus, reward):
    """Aggregations, fusions, gates, and success relative to an empty prefix."""
    found = fused(base, scores, **options)
    assert found.bonus == bonus
    assert reward is None or found.reward == pytest.approx(reward)


ROOM = {"crowded": {"x": [False, False, False, True]}}


@pytest.mark.parametrize(
    ("base", "scores", "options", "bonus", "reward"),
    [
        # 1, none, 0 has the mean 1/2, in the first group alone; in the second all are 1
        (
            *([1.0] * 6, {"x": [1.0, None, 0.0, 1.0, None, 1.0]}, {"group_size": 3}),
            *([1.0, 0.5, 0.0, 1.0, 1.0, 1.0], None),
        ),
        # beside y: the mean 1/3 of x takes the second place, (1/3 + 1/2)/2
        (BASE, {"x": [1.0, None, 0.0, 0.0], "y": Y}, {}, [0.5, 5 / 12, 0.5, 0.0], None),
        # without any score: the mean bonus, 1/2 or 1, not the maximum 1/2 of the peers' means
        ([1.0] * 3, {"x": [1.0, 0.0, None], "y": [0.0, 1.0, None]}, {}, [0.5] * 3, None),
        (
            *([1.0] * 3, {"x": [1.0, 0.0, None], "y": [0.0, 1.0, None]}),
            *({"aggregation": "max"}, [1.0] * 3, None),
        ),
        # the same with missing=base: no bonus, so the verified reward alone, in the convex fusion too
        (
            *([1.0] * 3, {"x": [1.0, 0.0, None], "y": [0.0, 1.0, None]}),
            *({"missing": "base"}, [0.5, 0.5, None], [1.25, 1.25, 1.0]),
        ),
        (
            *([1.0] * 3, {"x": [1.0, 0.0, None]}),
            *({"missing": "base", "fusion": "convex"}, [1.0, 0.0, None], [1.0, 0.5, 1.0]),
        ),
        # a score of one peer is enough: x has its mean 1/2 beside y
        (
            *([1.0] * 3, {"x": [1.0, 0.0, None], "y": [0.0, 1.0, 1.0]}),
            *({"missing": "base"}, [0.5, 0.5, 0.75], None),
        ),
        # the lift 1/2 of the first is the mean lift, though the problem of the second is the harder one
        (
            *([1.0, 0.0], {"x": [1.0, None]}),
            *({"relative": True, "empty": {"x": [0.5, 0.25]}}, [0.5, 0.5], None),
        ),
        # y has none in the first group, where the bonus is x alone, and 1 in the second: (0 + 1)/2
        (
            *(BASE, {"x": [1.0, 0.5, 0.0, 0.0], "y": [None, None, 1.0, 1.0]}, {"group_size": 2}),
            *([1.0, 0.5, 0.5, 0.5], None),
        ),
        # without the success of the empty prefix the peer is left out
        (BASE, {"x": X}, {"relative": True, "empty": {"x": NONE}}, NONE, BASE),
        # a group without any score has the base alone, not (1 - w) base in the convex fusion
        (
            *(BASE, {"x": [None, None, 1.0, 0.0], "y": NONE}, {"group_size": 2}),
            *([None, None, 1.0, 0.0], [1.0, 1.0, 0.5, 0.0]),
        ),
        (
            *(BASE, {"x": [None, None, 1.0, 0.0], "y": NONE}),
            *({"group_size": 2, "fusion": "convex", "classmate_reward_weight": 0.5},),
            *([None, None, 1.0, 0.0], [1.0, 1.0, 0.5, 0.0]),
        ),
        # without a verified reward: its score 1 does not count in the mean of the others either
        (
            *([None, 1.0, 0.0], {"x": [1.0, 0.0, None]}, {}),
            *([None, 0.0, 0.0], [None, 1.0, 0.0]),
        ),
        # without room: the smallest score, not the mean 2/3
        ([1.0, 0.0, 0.0, 0.0], {"x": [1.0, 1.0, 0.0, None]}, ROOM, [1.0, 1.0, 0.0, 0.0], None),
        (
            *([1.0, 0.0, 0.0, 0.0], {"x": [1.0, 1.0, 0.0, None]}, ROOM | {"aggregation": "max"}),
            *([1.0, 1.0, 0.0, 0.0], None),
        ),
        # a wrong path has the largest, if bonuses are negated: a longer prefix does not lower the penalty
        (
            *([0.0, 0.0, 1.0, 0.0, 1.0], {"x": [1.0, 0.5, 1.0, None, None]}),
            *({"gate": "negative_when_wrong", "crowded": {"x": [False] * 3 + [True] * 2}},),
            *([-1.0, -0.5, 1.0, -1.0, 0.5], None),
        ),
        # no score is known: nothing is paid for want of room
        (
            *([1.0, 0.0], {"x": [None, None]}, {"crowded": {"x": [True, False]}}),
            *([None, None], [1.0, 0.0]),
        ),
    ],
)
def test_missing_scores_by_hand(base, scores, options, bonus, reward):
    """A missing number is never a 0."""
    found = fused(base, scores, **options)
    assert found.bonus == [one if one is None else pytest.approx(one) for one in bonus]
    assert reward is None or found.reward == reward


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
def draws(draw: st.DrawFn):
    """A group of up to six paths with scores by up to three peers."""
    size, peers = draw(st.integers(1, 6)), draw(st.integers(1, 3))
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


def path(prefix, problem="p", *, right=True):
    return DealtPath(
        group=problem, right=right, first_step=prefix.partition("\n")[0], prefix=prefix
    )


def deal(bonuses, paths, seed=7):
    return deal_bonus(bonuses, paths, partial(deal_by_hash, seed=seed))


BONUS = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0])
PATH = st.tuples(st.sampled_from("pq"), st.booleans(), st.sampled_from("abc"), st.integers(0, 3))


@given(st.lists(st.tuples(PATH, BONUS), max_size=30), st.integers(0, 50))
def test_mean_and_spread_are_those_of_the_bonus(drawn, seed):
    """Over the right paths of a problem and over its wrong ones, several with one prefix; None stays None."""
    by_prefix = dict(drawn)  # equal prefixes have equal bonuses
    paths = [
        path(f"{first}\n{rest}\n", name, right=right) for (name, right, first, rest), _ in drawn
    ]
    bonuses = [by_prefix[key] for key, _ in drawn]
    dealt = deal(bonuses, paths, seed)
    groups = defaultdict(list)
    for one, before, after in zip(paths, bonuses, dealt, strict=True):
        assert (before is None) == (after is None)
        if before is not None:
            groups[one.group, one.right].append((before, after))
    for pairs in groups.values():
        before, after = zip(*pairs, strict=True)
        assert fmean(after) == pytest.approx(fmean(before), abs=1e-9)
        assert pstdev(after) == pytest.approx(pstdev(before), abs=1e-9)


def test_a_prefix_of_many_paths():
    """Seven paths with the bonus 1, one with 0. Either the order is that, or the single path has
    7/8 + 7 x 1/8 = 7/4 and each of the seven 7/8 - 7 x 1/56 = 3/4: mean 7/8 in both.
    """
    paths = [path("many"), *[path("one")], *[path("many")] * 6]
    found = {
        tuple(sorted({round(value, 9) for value in deal([1.0, 0.0, *[1.0] * 6], paths, seed)}))
        for seed in range(20)
    }
    assert found == {(0.0, 1.0), (0.75, 1.75)}


def test_equal_prefixes_of_a_problem_have_equal_bonuses():
    """Two distinct prefixes in four paths, two each: the two values are dealt."""
    dealt = deal([1.0, 1.0, 0.0, 0.0], [path("a"), path("a"), path("b"), path("b")])
    assert dealt in ([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0])


def test_the_preference_is_the_same_in_every_draw_and_problem():
    """Of a pair of prefixes one has the higher bonus in all of 50 problems, whichever the peers scored higher."""
    bonuses = [0.0, 1.0, 1.0, 0.0] * 25
    paths = [path(text, f"p{number}") for number in range(50) for text in ("2+3=5\n", "2*3=6\n")]
    dealt = deal(bonuses, paths)
    assert {tuple(dealt[place : place + 2]) for place in range(0, 100, 2)} in (
        {(0.0, 1.0)},
        {(1.0, 0.0)},
    )


def test_the_first_step_decides_before_the_rest():
    """Among 40 prefixes with four first steps, those with one first step are adjacent in the order."""
    paths = [path(f"{first}\n{rest}\n") for rest in range(10) for first in "abcd"]
    dealt = deal([float(place) for place in range(40)], paths)
    by_bonus = [
        one.first_step for _, one in sorted(zip(dealt, paths, strict=True), key=lambda x: x[0])
    ]
    assert sum(one != other for one, other in pairwise(by_bonus)) == 3


def test_paths_that_are_left_out_keep_their_bonus():
    """The first was not drawn; the second has the mean of its group, since no peer scored it."""
    dealt = deal([None, 0.5, 1.0, 0.0], [None, None, path("a"), path("b")])
    assert dealt[:2] == [None, 0.5]
    assert sorted(dealt[2:]) == [0.0, 1.0]


PROBLEM = Problem(
    id="p", question="?", gold=CountdownGold(numbers=(2, 3, 4), target=24), source="t"
)
FIRST, SECOND = {"3*2=6\n": "6*4=24"}, {"4*3=12\n": "12*2=24"}
DRAW = [("p", prefix + end) for prefix, end in {**FIRST, **SECOND}.items()]


def user_of(known, name="peer"):
    """A peer that can finish these prefixes alone."""
    return ScriptedPeer(name=name, write=lambda prefix, _seed: known.get(prefix, "no"))


def test_the_hashed_reward_does_not_depend_on_which_prefix_a_peer_can_use(reward_of):
    """Two right paths; one peer finishes the first alone, the other the second: 3/2 and 1, or 1 and 3/2.

    With the hashed bonus both peers give the same rewards: these two in the order of the hash.
    """

    def rewards(known, bonus):
        return reward_of([user_of(known)], [PROBLEM], keep=(0.5,), bonus=bonus)(DRAW)

    assert rewards(FIRST, "peers") == [1.5, 1.0]
    assert rewards(SECOND, "peers") == [1.0, 1.5]
    assert rewards(FIRST, "hashed") == rewards(SECOND, "hashed")
    assert sorted(rewards(FIRST, "hashed")) == [1.0, 1.5]


@pytest.mark.parametrize(("aggregation", "expected"), [("mean", 1.25), ("max", 1.5)])
def test_peers_that_use_different_prefixes(reward_of, aggregation, expected):
    """One uses the first prefix, the other the second: b is 1/2 (max: 1) for both, so by the hash as well."""
    for bonus in ("peers", "hashed"):
        peers = [user_of(FIRST, "x"), user_of(SECOND, "y")]
        reward = reward_of([*peers], [PROBLEM], keep=(0.5,), bonus=bonus, aggregation=aggregation)
        assert reward(DRAW) == [expected] * 2


def test_two_groups_of_one_problem_keep_their_own_bonuses(reward_of):
    """A short list of problems is drawn twice in a step; the peer finishes both paths of one group, none of the other."""
    paths = [*DRAW, ("p", "4-3=1\n1*2=2"), ("p", "4+2=6\n6-3=3")]
    reward = reward_of(
        [user_of(FIRST | SECOND)], [PROBLEM], keep=(0.5,), bonus="hashed", group_size=2
    )
    assert reward(paths) == [1.5, 1.5, 0.0, 0.0]


def test_a_shuffled_bonus_is_dealt_by_chance_among_equally_right_paths(reward_of):
    """Of two right paths one has the bonus, either one over 20 draws; a wrong path keeps its own, 0."""
    reward = reward_of([user_of(FIRST)], [PROBLEM], keep=(0.5,), bonus="shuffled", group_size=3)
    draws = [reward([*DRAW, ("p", "4-3=1\n1*2=2")], step=step) for step in range(20)]
    assert {tuple(draw) for draw in draws} == {(1.5, 1.0, 0.0), (1.0, 1.5, 0.0)}
    assert reward([*DRAW, ("p", "4-3=1\n1*2=2")], step=3) == draws[3]
