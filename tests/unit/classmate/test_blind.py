"""The blind bonus: the peers' scores of a problem, dealt to its prefixes by a hash."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.classmate.blind import deal_blindly
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import Problem
from tests.unit.classmate.scripted_peer import ScriptedPeer

SCORE = st.none() | st.sampled_from([0.0, 0.5, 1.0])


def deal(scores, asked, seed=7):
    return deal_blindly({"peer": scores}, asked, seed=seed)["peer"]


@given(st.lists(st.tuples(st.sampled_from("pq"), SCORE), max_size=30))
def test_mean_and_spread_are_those_of_the_peer_within_each_problem(drawn):
    """Over distinct prefixes of a problem the scores are permuted; a path without a score has none."""
    asked = [(problem, f"step {place}\n") for place, (problem, _) in enumerate(drawn)]
    scores = [score for _, score in drawn]
    dealt = deal(scores, asked)
    assert [one is None for one in dealt] == [one is None for one in scores]
    for problem in "pq":
        before, after = (
            sorted(
                value
                for value, one in zip(values, asked, strict=True)
                if one[0] == problem and value is not None
            )
            for values in (scores, dealt)
        )
        assert before == after


def test_equal_prefixes_of_a_problem_have_equal_scores():
    """Two distinct prefixes in three paths, with scores 1 and 0: two values are dealt."""
    same, other = ("p", "a\n"), ("p", "b\n")
    dealt = deal([1.0, 1.0, 0.0], [same, same, other])
    assert dealt[0] == dealt[1]
    assert {dealt[0], dealt[2]} == {0.0, 1.0}


def test_the_preference_is_the_same_in_every_draw():
    """Of a pair of prefixes, one has the higher score whichever the peer scored higher."""
    pair = [("p", "2+3=5\n"), ("p", "2*3=6\n")]
    assert deal([0.0, 1.0], pair) == deal([1.0, 0.0], pair)
    assert deal([0.0, 1.0], pair[::-1]) == deal([0.0, 1.0], pair)[::-1]


def test_the_preference_knows_nothing_of_the_scores():
    """Over 400 problems, the prefix that the peer scored higher is preferred about half the time: 200 +- 60."""
    asked = [(f"p{number}", text) for number in range(400) for text in ("a\n", "b\n")]
    assert 140 < sum(deal([0.0, 1.0] * 400, asked)[1::2]) < 260


def test_paths_that_were_not_drawn_are_left_out():
    """No prefix, no score; the others share theirs."""
    dealt = deal([None, 1.0, 0.0], [None, ("p", "a\n"), ("p", "b\n")])
    assert dealt[0] is None
    assert {dealt[1], dealt[2]} == {0.0, 1.0}


def test_the_blind_reward_does_not_depend_on_which_prefix_a_peer_can_use(reward_of):
    """Two right paths; one peer finishes the first alone, the other the second: 3/2 and 1, or 1 and 3/2.

    With the blind bonus both peers give the same rewards: these two in the order of the hash.
    """
    problem = Problem(
        id="p", question="?", gold=CountdownGold(numbers=(2, 3, 4), target=24), source="t"
    )
    first, second = {"3*2=6\n": "6*4=24"}, {"4*3=12\n": "12*2=24"}
    draw = [("p", prefix + end) for prefix, end in {**first, **second}.items()]

    def rewards(known, bonus):
        peer = ScriptedPeer(name="peer", write=lambda prefix, _seed: known.get(prefix, "no"))
        return reward_of([peer], [problem], keep=(0.5,), bonus=bonus)(draw)

    assert rewards(first, "peers") == [1.5, 1.0]
    assert rewards(second, "peers") == [1.0, 1.5]
    assert rewards(first, "blind") == rewards(second, "blind")
    assert sorted(rewards(first, "blind")) == [1.0, 1.5]
