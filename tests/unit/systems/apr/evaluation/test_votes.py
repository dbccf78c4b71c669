"""Consensus and pass@k of rollouts, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.systems.apr.evaluation.votes import (
    any_sample_scores,
    consensus_scores,
    vote_curve,
)
from tests.unit.systems.apr.evaluation.rows import failed, row

PARAMS = EvaluateParams(resamples=200)


def claim(operation, numbers):
    return f"Exploring Operation: {operation}, Resulting Numbers: {numbers}\n"


RIGHT, WRONG, OTHER = claim("2+4=6", "[6, 9]"), claim("9-4=5", "[2, 5]"), claim("9-2=7", "[4, 7]")


def test_the_most_frequent_claim_wins():
    """Right, right, wrong: the vote of 3 is right, that of 1 is right by 2/3, that of 2 by (1 + 2 x 1/2) / 3."""
    rows = [row("a", n, right=n < 2, claim=RIGHT if n < 2 else WRONG) for n in range(3)]
    scores = [consensus_scores(rows, k)["a"] for k in (1, 2, 3)]
    assert scores == pytest.approx([2 / 3, 2 / 3, 1])


def test_frequent_wrong_claims_win_against_a_right_one():
    """Wrong twice, right once: consensus of 3 is 0, pass@3 is 1, pass@2 is 2/3."""
    rows = [row("a", n, right=n == 0, claim=RIGHT if n == 0 else WRONG) for n in range(3)]
    assert consensus_scores(rows, 3)["a"] == 0
    assert [any_sample_scores(rows, k)["a"] for k in (2, 3)] == pytest.approx([2 / 3, 1])


def test_rollouts_without_a_claim_abstain():
    """One right claim and two rollouts without any: the vote of 3 is right."""
    rows = [row("a", 0, right=True, claim=RIGHT), row("a", 1), row("a", 2, claim="")]
    assert consensus_scores(rows, 3)["a"] == 1


def test_commuted_operands_are_one_answer():
    """4+2=6 with [9, 6] votes with 2+4=6 and [6, 9], so two votes of three are right."""
    rows = [
        row("a", 0, right=True, claim=RIGHT),
        row("a", 1, right=True, claim=claim("4+2=6", "[9, 6]")),
        row("a", 2, claim=WRONG),
    ]
    assert consensus_scores(rows, 3)["a"] == 1


def test_problems_with_too_few_rollouts_are_left_out():
    """Of b one of two failed: it has a vote of 1, and none of 2."""
    rows = [row("a", 0), row("a", 1), row("b", 0), failed("b", 1)]
    assert set(consensus_scores(rows, 1)) == {"a", "b"}
    assert set(consensus_scores(rows, 2)) == set(any_sample_scores(rows, 2)) == {"a"}


def test_a_curve_has_powers_of_two_and_all_samples():
    """3 samples of 10 drawn tokens: votes of 1, 2, 3 with 10, 20, 30.

    Critical tokens 5, 6, 9: the longest of 1 is 20/3 on average, of 2 (6 + 9 + 9) / 3 = 8, of 3 it is 9.
    """
    rows = [row("a", n, critical=tokens) for n, tokens in enumerate((5, 6, 9))]
    curve = vote_curve(rows, PARAMS, seed=1)
    assert [one.samples for one in curve] == [1, 2, 3]
    assert [one.drawn_tokens for one in curve] == [10, 20, 30]
    assert [one.critical_tokens for one in curve] == pytest.approx([20 / 3, 8, 9])


def test_one_sample_is_no_vote():
    """No curve."""
    assert vote_curve([row("a"), row("b")], PARAMS, seed=1) == []


@given(st.lists(st.sampled_from([RIGHT, WRONG, OTHER, None]), min_size=1, max_size=6))
def test_a_vote_of_one_is_the_accuracy_and_pass_at_k_bounds_every_vote(claims):
    """For any claims of a problem."""
    rows = [row("a", n, right=one == RIGHT, claim=one) for n, one in enumerate(claims)]
    share = claims.count(RIGHT) / len(claims)
    assert consensus_scores(rows, 1)["a"] == pytest.approx(share)
    for k in range(1, len(claims) + 1):
        assert consensus_scores(rows, k)["a"] <= any_sample_scores(rows, k)["a"] + 1e-12
