"""Selectors on small sets of candidates whose winners can be worked out by hand."""

import math
from functools import partial

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.study.selection.selectors import (
    AnyPath,
    BestOf,
    CandidatePath,
    MajorityVote,
    WeightedVote,
    borda_weights,
    likelihood,
    make_selectors,
    mean_logprob,
    self_certainty,
)


def candidate(answer, *, tokens=10, logprob=-1.0, certainty=1.0):
    return CandidatePath(answer=answer, tokens=tokens, logprob=logprob, self_certainty=certainty)


def test_any_path_is_each_with_the_same_chance():
    """Of four, one in four."""
    assert AnyPath().choose([candidate(0)] * 4) == [0.25] * 4


def test_likelihood_and_its_mean_disagree_about_length():
    """-2 over 10 tokens against -3 over 30: the sum prefers the first, the mean -0.1 the second."""
    pair = [candidate(0, tokens=10, logprob=-2.0), candidate(1, tokens=30, logprob=-3.0)]
    assert BestOf(likelihood).choose(pair) == [1, 0]
    assert BestOf(mean_logprob).choose(pair) == [0, 1]


def test_equals_share_the_choice():
    """Two of three are as certain: half each."""
    three = [candidate(i, certainty=c) for i, c in enumerate([2.0, 1.0, 2.0])]
    assert BestOf(self_certainty).choose(three) == [0.5, 0, 0.5]


def test_majority_shares_evenly_between_answers_then_within():
    """Answers 0, 0, 1, 1, 2: 0 and 1 tie, a half each, a quarter to each of their paths."""
    assert MajorityVote().choose([candidate(a) for a in (0, 0, 1, 1, 2)]) == [0.25] * 4 + [0]


def test_silence_casts_no_vote():
    """Three paths without an answer do not outvote one with one; if all are silent, all are alike."""
    assert MajorityVote().choose([candidate(a) for a in (None, None, None, 3)]) == [0, 0, 0, 1]
    assert MajorityVote().choose([candidate(None)] * 2) == [0.5, 0.5]


def test_a_weighted_vote_can_overrule_the_majority():
    """Answer 0 has weights 1 + 1, answer 1 has 2.5."""
    three = [candidate(0), candidate(0), candidate(1, certainty=2.5)]
    vote = WeightedVote(self_certainty)
    assert vote.choose(three) == [0, 0, 1]
    assert MajorityVote().choose(three) == [0.5, 0.5, 0]


def test_the_likelihood_vote_weighs_by_probability_a_token():
    """exp(-0.1) = 0.905 beats exp(-1) + exp(-1) = 0.736."""
    three = [candidate(0, logprob=-10), candidate(0, logprob=-10), candidate(1, logprob=-1)]
    assert 2 * math.exp(-1) < math.exp(-0.1)
    assert make_selectors(StrategyParams())[Strategy.LIKELIHOOD_VOTE].choose(three) == [0, 0, 1]


def test_borda_votes_by_rank():
    """Ranks 1, 3, 2 of three with power 2 give 9, 1, 4 votes."""
    assert borda_weights([9.0, 1.0, 5.0], power=2) == [9, 1, 4]


def test_equal_ranks_share_their_borda_votes():
    """Certainties 5, 5, 1 with power 1: ranks 1 and 2 give 3 and 2 votes, so 2.5 each."""
    assert borda_weights([5.0, 5.0, 1.0], power=1) == [2.5, 2.5, 1]


def test_borda_with_power_zero_is_the_majority():
    """Every rank gives one vote."""
    six = [
        candidate(a, certainty=c) for a, c in zip([0, 1, 1, 2, 2, 2], range(6, 0, -1), strict=True)
    ]
    borda = WeightedVote(self_certainty, partial(borda_weights, power=0))
    assert borda.choose(six) == MajorityVote().choose(six)


def test_the_borda_power_of_the_params_decides():
    """Answer 0 on rank 1 against answer 1 on ranks 2 and 3: 3 = 2 + 1 ties at power 1; power 2
    gives 9 against 5."""
    three = [candidate(0, certainty=3), candidate(1, certainty=2), candidate(1, certainty=1)]
    even = make_selectors(StrategyParams(borda_power=1))[Strategy.BORDA_VOTE]
    steep = make_selectors(StrategyParams(borda_power=2))[Strategy.BORDA_VOTE]
    assert even.choose(three) == [0.5, 0.25, 0.25]
    assert steep.choose(three) == [1, 0, 0]


def test_a_path_without_log_probability_is_bad_input():
    """A selector never invents a value; the message names what to leave out."""
    with pytest.raises(BadInputError, match="mean-logprob"):
        BestOf(likelihood).choose([candidate(0, logprob=None)])


def test_the_order_of_candidates_makes_no_winner():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ as floats, but are the same weight."""
    weights = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1]
    six = [candidate(a, certainty=w) for a, w in zip([0, 0, 0, 1, 1, 1], weights, strict=True)]
    vote = WeightedVote(self_certainty)
    assert vote.choose(six) == pytest.approx([1 / 6] * 6)
