"""The blind bonus: the peers' bonus of a problem, dealt to its prefixes by a hash."""

from collections import defaultdict
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.blind import BlindPath, hash_bonus
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer


def path(prefix, problem="p", *, right=True):
    return BlindPath(
        group=problem, right=right, first_step=prefix.partition("\n")[0], prefix=prefix
    )


def deal(bonuses, paths, seed=7):
    return hash_bonus(bonuses, paths, seed=seed)


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


def test_the_blind_reward_does_not_depend_on_which_prefix_a_peer_can_use(reward_of):
    """Two right paths; one peer finishes the first alone, the other the second: 3/2 and 1, or 1 and 3/2.

    With the blind bonus both peers give the same rewards: these two in the order of the hash.
    """

    def rewards(known, bonus):
        return reward_of([user_of(known)], [PROBLEM], keep=(0.5,), bonus=bonus)(DRAW)

    assert rewards(FIRST, "peers") == [1.5, 1.0]
    assert rewards(SECOND, "peers") == [1.0, 1.5]
    assert rewards(FIRST, "blind") == rewards(SECOND, "blind")
    assert sorted(rewards(FIRST, "blind")) == [1.0, 1.5]


@pytest.mark.parametrize(("aggregation", "expected"), [("mean", 1.25), ("max", 1.5)])
def test_peers_that_use_different_prefixes(reward_of, aggregation, expected):
    """One uses the first prefix, the other the second: b is 1/2 (max: 1) for both, so blindly as well."""
    for bonus in ("peers", "blind"):
        peers = [user_of(FIRST, "x"), user_of(SECOND, "y")]
        reward = reward_of([*peers], [PROBLEM], keep=(0.5,), bonus=bonus, aggregation=aggregation)
        assert reward(DRAW) == [expected] * 2


def test_two_groups_of_one_problem_keep_their_own_bonuses(reward_of):
    """A short list of problems is drawn twice in a step; the peer finishes both paths of one group, none of the other."""
    paths = [*DRAW, ("p", "4-3=1\n1*2=2"), ("p", "4+2=6\n6-3=3")]
    reward = reward_of(
        [user_of(FIRST | SECOND)], [PROBLEM], keep=(0.5,), bonus="blind", group_size=2
    )
    assert reward(paths) == [1.5, 1.5, 0.0, 0.0]
