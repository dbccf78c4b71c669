"""maj@k against a vote over every subset."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.study.statistics.majority import Vote, majority_at_k


def votes_of(*answers, right="a"):
    return [Vote(answer=answer, correct=answer == right) for answer in answers]


def brute_force(votes, k):
    """Vote in each subset; a lead that t right and wrong answers share counts by its right share."""
    right = {vote.answer for vote in votes if vote.correct}
    total, num_subsets = 0.0, 0
    for subset in itertools.combinations(votes, k):
        num_subsets += 1
        counts = Counter(vote.answer for vote in subset if vote.answer is not None)
        leaders = [a for a, count in counts.items() if count == max(counts.values())]
        if leaders:
            total += sum(leader in right for leader in leaders) / len(leaders)
    return total / num_subsets


def test_hand_worked_number_with_a_tie():
    """Answers a, a, b; k = 2. Pairs: aa wins, ab ties twice for 1/2 each: (1 + 1/2 + 1/2) / 3."""
    assert majority_at_k(votes_of("a", "a", "b"), 2) == pytest.approx(2 / 3)


def test_all_paths_give_the_plain_majority():
    """With k = n there is one subset: 3 votes for the wrong answer beat 2 for the right one."""
    assert majority_at_k(votes_of("a", "a", "b", "b", "b"), 5) == 0


def test_a_path_without_an_answer_casts_no_vote():
    """Three silent paths do not outvote the one that answers; silence alone is never right."""
    assert majority_at_k(votes_of("a", None, None, None), 4) == 1
    assert majority_at_k(votes_of(None, None), 2) == 0


def test_white_space_makes_no_new_answer():
    """'3 + 5' and '3+5' are one answer with two votes against one."""
    votes = votes_of("3 + 5", "3+5", "9", right="9")
    assert majority_at_k(votes, 3) == 0


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e", None]), min_size=1, max_size=9), st.data()
)
def test_equals_brute_force_over_all_subsets(answers, data):
    """The closed form equals a vote in each subset, with several right answers (a and b) as well."""
    k = data.draw(st.integers(1, len(answers)))
    votes = [Vote(answer=answer, correct=answer in {"a", "b"}) for answer in answers]
    assert majority_at_k(votes, k) == pytest.approx(brute_force(votes, k))


def test_fewer_votes_than_k_are_refused():
    """A majority of 4 cannot be estimated from 2 paths."""
    with pytest.raises(BadInputError, match="2 scored paths; an estimate at k=4"):
        majority_at_k(votes_of("a", "b"), 4)
