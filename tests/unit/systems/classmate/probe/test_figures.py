"""Success by kept steps, lifts, and means over chains of different lengths."""

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.probe.chains import Chain
from pipeline_lib.systems.classmate.probe.continuations import ChainContinuations
from pipeline_lib.systems.classmate.probe.figures import (
    ByKept,
    ProbedChain,
    distinct_shares,
    leak_rate,
    lifts,
    mean_curves,
    missing_notes,
    step_lifts,
)
from pipeline_lib.systems.classmate.scoring import Continuation

EVALUATE = EvaluateParams(resamples=200)


def judged(*rights):
    return [[Continuation(text="", right=one) for one in found] for found in rights]


def probed(name, *rights, problem=None, leak=None, shuffled=(), peers=("p",)):
    """A chain with one step fewer than ``rights``, each the verdicts of one prefix."""
    steps = tuple(f"{number}\n" for number in range(1, len(rights)))
    gold = MathGold(answer="1")
    chain = Chain(
        id=name,
        problem=Problem(id=problem or name, question="?", gold=gold, source="test"),
        steps=steps,
    )
    found = ChainContinuations(own=judged(*rights), shuffled=judged(*shuffled))
    return ProbedChain(
        chain=chain,
        leak=leak or [False] * len(rights),
        continuations=dict.fromkeys(peers, found),
        own={peer: ByKept.of(found.own, level=0.95) for peer in peers},
        shuffled={peer: ByKept.of(found.shuffled, level=0.95) for peer in peers if shuffled},
    )


def test_success_of_one_chain():
    """0 of 2, 1 of 2 with one failed, none judged: 0, 1/2 and nothing. Wilson's bounds of 1 of 2 at 95 % with
    z = 1.96: (1/2 + z^2 / 4 -+ z sqrt(1/8 + z^2 / 16)) / (1 + z^2 / 2) = 0.0945 and 0.9055."""
    row = probed("a", [False, False], [True, False, None], [None, None]).own["p"].row()
    assert row["kept"] == [0, 1, 2]
    assert row["success"] == [0.0, 0.5, None]
    assert (row["low"][1], row["high"][1]) == (
        pytest.approx(0.0945, abs=1e-4),
        pytest.approx(0.9055, abs=1e-4),
    )
    assert row["low"][2] is row["high"][2] is None
    assert row["failed"] == [0, 1, 2]


def test_missing_scores_are_counted_by_peer_and_reason():
    """Three continuations of two prefixes were not judged; a peer with all scores has no note."""
    chains = [probed("a", [False, False], [True, False, None], [None, None])]
    assert missing_notes(chains) == ["classmate p: 3 continuations have no score: not judged (3)"]
    assert missing_notes([probed("a", [False], [True])]) == []


def test_lifts():
    """Each value minus the one before it; unknown at the start and beside an unknown value."""
    assert lifts([0.25, 0.75, None, 0.5, 0.0]) == [None, 0.5, None, None, -0.5]


def test_an_output_line():
    """The keys in the order of the documentation; shuffled figures only where they were drawn."""
    row = probed("a", [False], [True]).row()
    assert list(row) == ["id", "peers", "leak", "continuations"]
    assert list(row["peers"]["p"]) == ["kept", "success", "low", "high", "lift", "failed"]
    assert row["continuations"]["p"][1] == [{"text": "", "right": True, "error": None}]
    row = probed("a", [False], [True], shuffled=([False], [False])).row()
    assert row["peers"]["p"]["shuffled"]["success"] == [0.0, 0.0]


def test_chains_are_aligned_by_their_kept_share():
    """2 steps with successes 0, 1/2, 1 and 4 steps with 1, 1, 0, 0, 1. At 25 % they keep 0 and 1 steps,
    (0 + 1) / 2; at 50 % 1 and 2, (1/2 + 0) / 2; at 75 % 1 and 3, the same; at 100 % (1 + 1) / 2."""
    short = probed("a", [False, False], [True, False], [True, True])
    long = probed("b", [True], [True], [False], [False], [True])
    curve = mean_curves([short, long], EVALUATE, seed=7)["p"]
    assert [point.share for point in curve] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [point.success.value for point in curve] == pytest.approx([0.5, 0.5, 0.25, 0.25, 1.0])
    assert curve[0].over_empty is None
    assert [point.over_empty.value for point in curve[1:]] == pytest.approx([0, -0.25, -0.25, 0.5])


def test_chains_of_one_problem_are_averaged_first():
    """Three chains of problem a succeed, one of b does not: 1/2 over two problems, not 3/4."""
    chains = [probed(f"a{n}", [True], [True], problem="a") for n in range(3)]
    curve = mean_curves([*chains, probed("b", [False], [False])], EVALUATE, seed=7)["p"]
    assert [(point.problems, point.success.value) for point in curve] == [(2, 0.5), (2, 0.5)]


def test_a_chain_without_a_score_is_left_out_at_that_share():
    """Of two problems one has no verdict on its whole chain: the mean there is the other's, 1."""
    curve = mean_curves(
        [probed("a", [False], [True]), probed("b", [False], [None])], EVALUATE, seed=7
    )["p"]
    assert [(point.problems, point.success.value) for point in curve] == [(2, 0.0), (1, 1.0)]


def test_the_control_has_a_curve_of_its_own():
    """Own prefixes succeed, those of another chain do not."""
    curve = mean_curves(
        [probed("a", [False], [True], shuffled=([False], [False]))], EVALUATE, seed=7
    )["p"]
    assert curve[1].success.value == 1.0
    assert curve[1].shuffled.value == 0.0


@pytest.mark.parametrize(
    ("steps", "shares"),
    [([1], [0.0, 1.0]), ([2], [0.0, 0.5, 1.0]), ([4], [0.0, 0.25, 0.5, 0.75, 1.0])],
)
def test_shares_that_keep_the_same_steps_are_one_point(steps, shares):
    """25 % of two steps is the empty prefix, 75 % is the first step as 50 % is."""
    assert distinct_shares(steps) == shares


def test_leaks_at_a_share():
    """Two steps; one of two chains gives the answer away from its first step on, both as a whole."""
    first = probed("a", [True], [True], [True], leak=[False, True, True])
    second = probed("b", [True], [True], [True], leak=[False, False, True])
    assert [leak_rate([first, second], share=share) for share in (0, 0.5, 1)] == [0.0, 0.5, 1.0]


def test_steps_by_lift():
    """Lifts 1 and -1/2 of a, 0 of b: the largest first. The first step of a gives the answer away, the second only
    follows it."""
    first = probed("a", [False, False], [True, True], [True, False], leak=[False, True, True])
    steps = step_lifts([first, probed("b", [True], [True])])
    assert [(one.chain.id, one.number, one.lift, one.leaks) for one in steps] == [
        ("a", 1, 1.0, True),
        ("b", 1, 0.0, False),
        ("a", 2, -0.5, False),
    ]


def test_a_lift_without_both_scores_is_no_step():
    """Nothing was judged after the step, so it is not listed."""
    assert step_lifts([probed("a", [True], [None])]) == []
