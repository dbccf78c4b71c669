"""Right answers and selections, by hand and as invariants."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.systems.prr.evaluation.answers import (
    BranchAnswers,
    branch_figures,
    cover_batch,
    decidable,
    decode_answers,
    joined,
    judge_batch,
    right_by_rule,
)
from pipeline_lib.systems.prr.model.batches import Batch, BranchOutput

NUM_TOKENS = 4


def outcome(answers_BKL, scores_BK, labels_BL, *, sure_BK=None, real_B=None):
    """Outputs with logit 1, or ``sure_BK`` of the branch, at the given tokens."""
    answers = torch.tensor(answers_BKL)
    sure = torch.ones(answers.shape[:2]) if sure_BK is None else torch.tensor(sure_BK)
    logits_BKLV = torch.nn.functional.one_hot(answers, NUM_TOKENS) * sure[:, :, None, None]
    labels = torch.tensor(labels_BL)
    rows = len(labels)
    return BranchOutput(
        logits_BKLV=logits_BKLV.float(), scores_BK=torch.tensor(scores_BK), core_passes=1
    ), Batch(
        inputs_BL=torch.ones_like(labels),
        labels_BL=labels,
        puzzle_ids_B=torch.zeros(rows, dtype=torch.long),
        real_B=torch.tensor([True] * rows if real_B is None else real_B),
    )


RIGHT, WRONG, OTHER = [1, 2], [2, 2], [3, 3]


def judged(*asked, **settings):
    return judge_batch(*outcome(*asked, **settings))


def right(rows) -> dict[str, list[bool]]:
    return {rule: right_B.tolist() for rule, right_B in right_by_rule(rows).items()}


def test_picks_by_hand():
    """One right of three. The scorer picks it, majority and confidence do not."""
    rows = judged([[RIGHT, WRONG, WRONG]], [[2.0, 1.0, 0.0]], [[1, 2]], sure_BK=[[1.0, 5.0, 2.0]])
    assert right(rows) == {
        "scorer": [True],
        "majority": [False],
        "confidence": [False],
        "oracle": [True],
    }
    assert decidable(rows).tolist() == [True]
    assert rows.best_B.tolist() == [0]
    assert branch_figures(rows) == {
        "decidable": 1.0,
        "scorer picks lowest loss": 1.0,
        "usage entropy": 0.0,
        "distinct outputs": 2.0,
        # Of the pairs 1-2, 1-3 and 2-3 the first two differ, each at one of two labels.
        "disagreement": pytest.approx(1 / 3),
    }


def test_a_tie_of_votes_goes_to_the_most_confident():
    """Three distinct answers, one vote each: the second has the highest confidence and is right."""
    rows = judged([[WRONG, RIGHT, OTHER]], [[0.0] * 3], [[1, 2]], sure_BK=[[1.0, 3.0, 2.0]])
    assert right(rows)["majority"] == [True]


def test_a_tie_of_pairs_goes_to_the_more_confident_pair():
    """Log-probabilities -.26 and -1.32 against twice -.56: the mean decides, not the maximum."""
    rows = judged(
        [[WRONG, WRONG, RIGHT, RIGHT]], [[0.0] * 4], [[1, 2]], sure_BK=[[9.0, 0.1, 3.0, 3.0]]
    )
    assert (right(rows)["majority"], right(rows)["confidence"]) == ([True], [False])


def test_votes_beat_confidence():
    """Two branches of low confidence agree on the right answer against a confident one."""
    rows = judged([[WRONG, RIGHT, RIGHT]], [[0.0] * 3], [[1, 2]], sure_BK=[[9.0, 1.0, 1.0]])
    assert right(rows)["majority"] == [True]


def test_confidence_by_hand():
    """Logit 1 among four weighs 2 of 5, logit 0 everywhere 1 of 4; one position is ignored."""
    logits_BKLV = torch.zeros(1, 1, 3, 4)
    logits_BKLV[0, 0, 0, 1] = 1
    logits_BKLV[0, 0, 2, 1] = 100
    output = BranchOutput(logits_BKLV=logits_BKLV, scores_BK=torch.zeros(1, 1), core_passes=1)
    answers = decode_answers(output, lambda _tokens_BKL: np.array([[[True, True, False]]]))
    assert answers.confidences_BK.item() == pytest.approx((math.log(2 / 5) + math.log(1 / 4)) / 2)


def test_where_all_branches_are_right_or_none_no_pick_is_judged():
    """Such rows are not decidable."""
    rows = judged([[RIGHT, RIGHT], [WRONG, WRONG]], [[0.0, 1.0], [0.0, 1.0]], [[1, 2], [1, 2]])
    assert right(rows)["scorer"] == [True, False]
    assert not decidable(rows).any()


def test_padding_and_secret_rows_are_left_out():
    """Of a padding row with right answers, a secret one and a real one the last is judged, with its place."""
    rows = judged(
        [[RIGHT, RIGHT], [RIGHT, WRONG], [RIGHT, WRONG]],
        [[1.0, 0.0]] * 3,
        [[1, 2], [0, 0], [1, 2]],
        real_B=[False, True, True],
    )
    assert (rows.places_B.tolist(), rows.unlabelled) == ([2], 1)
    assert right(rows)["oracle"] == [True]


def test_usage_entropy_of_two_branches_out_of_four():
    """Equal use of two: log 2 / log 4 = 1/2. A single branch has no figures, nor have no rows."""
    rows = judged(
        [[RIGHT, WRONG, WRONG, WRONG], [WRONG, RIGHT, WRONG, WRONG]], [[0.0] * 4] * 2, [[1, 2]] * 2
    )
    assert branch_figures(rows)["usage entropy"] == pytest.approx(1 / 2)
    assert branch_figures(judged([[RIGHT]], [[0.0]], [[1, 2]])) == {}
    assert branch_figures(judged([[RIGHT, WRONG]], [[0.0, 0.0]], [[0, 0]])) == {}


def answers_of(tokens_KL, *, scores_K, confidences_K) -> BranchAnswers:
    tokens_BKL = np.array([tokens_KL], dtype=np.uint8)
    return BranchAnswers(
        tokens_BKL=tokens_BKL,
        kept_BKL=tokens_BKL,
        scores_BK=np.array([scores_K], dtype=np.float32),
        confidences_BK=np.array([confidences_K], dtype=np.float32),
    )


def test_known_answers():
    """Two right answers, of which branches give one, twice, and a wrong one.

    Found 1 of 2; the majority picks a right one, though the label is the other answer; the scorer picks the wrong
    one.
    """
    answers = answers_of(
        [[1, 2], [1, 2], [3, 3]], scores_K=[0.0, 1.0, 2.0], confidences_K=[-3.0, -2.0, -4.0]
    )
    rows = cover_batch(answers, np.array([[[2, 1], [1, 2]]], dtype=np.uint8))
    assert (rows.answers_B.tolist(), rows.found_B.tolist()) == ([2], [0.5])
    assert rows.right_BK.tolist() == [[True, True, False]]
    assert right(rows) == {
        "scorer": [False],
        "majority": [True],
        "confidence": [True],
        "oracle": [True],
    }


def test_repeated_answers_count_once():
    """Rows of right answers are filled up by repeats: of the two different ones in [b, a, a] the
    branches give a. Found is 1 of 2, not 2 of 3.
    """
    answers = answers_of([[1, 2], [3, 3]], scores_K=[0.0, 0.0], confidences_K=[0.0, 0.0])
    rows = cover_batch(answers, np.array([[[2, 1], [1, 2], [1, 2]]], dtype=np.uint8))
    assert (rows.answers_B.tolist(), rows.found_B.tolist()) == ([2], [0.5])


tokens = st.integers(1, NUM_TOKENS - 1)
rows_of_branches = st.integers(1, 4).flatmap(
    lambda branches: st.lists(
        st.tuples(
            st.lists(
                st.lists(tokens, min_size=2, max_size=2), min_size=branches, max_size=branches
            ),
            st.lists(st.floats(-5, 5, width=32), min_size=branches, max_size=branches),
            st.lists(st.integers(0, NUM_TOKENS - 1), min_size=2, max_size=2),
        ),
        min_size=2,
        max_size=5,
    )
)


def judged_rows(rows):
    return judged(*(list(column) for column in zip(*rows, strict=True)))


@given(rows_of_branches)
def test_no_pick_beats_the_oracle(rows):
    """The oracle is right wherever a pick is; figures are within their bounds."""
    found = judged_rows(rows)
    rules = right_by_rule(found)
    assert all((right_B <= rules["oracle"]).all() for right_B in rules.values())
    if figures := branch_figures(found):
        assert 1 <= figures["distinct outputs"] <= found.right_BK.shape[1]
        assert 0 <= figures["disagreement"] <= 1


@given(rows_of_branches)
def test_parts_add_up_to_the_whole(rows):
    """Batches can be joined; the figures are those of the whole."""
    whole, parts = judged_rows(rows), joined([judged_rows(rows[:1]), judged_rows(rows[1:])])
    assert right(parts) == right(whole)
    assert parts.unlabelled == whole.unlabelled
    assert branch_figures(parts) == pytest.approx(branch_figures(whole))
