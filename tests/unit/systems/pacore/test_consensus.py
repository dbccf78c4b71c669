"""Consensus of the answers to one question, by hand."""

import math

import pytest

from pipeline_lib.systems.pacore.consensus import Method, decide, probability_per_token

ANSWERS = [0, 1, 1, None]
SCORES = [0.9, 0.3, 0.4, 5.0]


@pytest.mark.parametrize(
    ("method", "place", "votes"),
    [
        (Method.MAJORITY, 1, 2),
        # .9 against .3 + .4; a text without an answer has no vote, whatever its score.
        (Method.WEIGHTED, 0, 1),
        # Ranks 2, 4, 3 of four: 3 votes against 1 + 2, a tie.
        (Method.BORDA, 0, 1),
        (Method.BEST, 3, 0),
    ],
)
def test_each_rule(method, place, votes):
    """The earliest text of the leading answer, and the texts that share it."""
    elected = decide(ANSWERS, SCORES, method, borda_power=1)
    assert (elected.place, elected.votes) == (place, votes)
    assert elected.tied == (method is Method.BORDA)


def test_without_any_answer():
    """The first text, without a vote."""
    elected = decide([None, None], None, Method.MAJORITY, borda_power=1)
    assert (elected.place, elected.votes, elected.tied) == (0, 0, False)


def test_equal_texts_are_no_tie():
    """Two texts with the best score and the same answer agree."""
    assert not decide([3, 3], [1.0, 1.0], Method.BEST, borda_power=1).tied


def test_probability_per_token():
    """exp(-2 / 4); an empty text has the probability of its one end."""
    assert probability_per_token(-2.0, 4) == math.exp(-0.5)
    assert probability_per_token(-2.0, 0) == math.exp(-2)
