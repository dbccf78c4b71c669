"""Counts of right answers and selections, by hand and as invariants."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline_lib.systems.prr.evaluation.branch_answers import decode_answers
from pipeline_lib.systems.prr.evaluation.branch_metrics import (
    BranchCounts,
    compute_metrics,
    count_batch,
)
from pipeline_lib.systems.prr.model.protocol import Batch, BranchOutput

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


def test_picks_by_hand():
    """One right of three. The scorer picks it, majority and confidence do not."""
    output, batch = outcome(
        [[RIGHT, WRONG, WRONG]], [[2.0, 1.0, 0.0]], [[1, 2]], sure_BK=[[1.0, 5.0, 2.0]]
    )
    assert count_batch(output, batch) == BranchCounts(
        rows=1,
        unlabelled=0,
        oracle=1,
        scorer=1,
        majority=0,
        confidence=0,
        right_branches=1,
        decidable=1,
        scorer_decided=1,
        confidence_decided=0,
        best_K=(1, 0, 0),
        distinct=2,
        # Of the pairs 1-2, 1-3 and 2-3 the first two differ, each at one of two labels.
        disagreement=pytest.approx(1 / 3),
    )


def test_a_tie_of_votes_goes_to_the_most_confident():
    """Three distinct answers, one vote each: the second has the highest confidence and is right."""
    output, batch = outcome(
        [[WRONG, RIGHT, OTHER]], [[0.0, 0.0, 0.0]], [[1, 2]], sure_BK=[[1.0, 3.0, 2.0]]
    )
    assert count_batch(output, batch).majority == 1


def test_a_tie_of_pairs_goes_to_the_more_confident_pair():
    """Log-probabilities -.26 and -1.32 against twice -.56: the mean decides, not the maximum."""
    output, batch = outcome(
        [[WRONG, WRONG, RIGHT, RIGHT]], [[0.0] * 4], [[1, 2]], sure_BK=[[9.0, 0.1, 3.0, 3.0]]
    )
    counts = count_batch(output, batch)
    assert (counts.majority, counts.confidence) == (1, 0)


def test_votes_beat_confidence():
    """Two branches of low confidence agree on the right answer against a confident one."""
    output, batch = outcome(
        [[WRONG, RIGHT, RIGHT]], [[0.0, 0.0, 0.0]], [[1, 2]], sure_BK=[[9.0, 1.0, 1.0]]
    )
    assert count_batch(output, batch).majority == 1


def test_confidence_by_hand():
    """Logit 1 among four weighs 2 of 5, logit 0 everywhere 1 of 4; one position is ignored."""
    logits_BKLV = torch.zeros(1, 1, 3, 4)
    logits_BKLV[0, 0, 0, 1] = 1
    logits_BKLV[0, 0, 2, 1] = 100
    output = BranchOutput(logits_BKLV=logits_BKLV, scores_BK=torch.zeros(1, 1), core_passes=1)
    answers = decode_answers(output, lambda _tokens_BKL: np.array([[[True, True, False]]]))
    assert answers.confidences_BK.item() == pytest.approx((math.log(2 / 5) + math.log(1 / 4)) / 2)


def test_where_all_branches_are_right_or_none_no_pick_is_judged():
    """Such rows are not decidable and excluded from the selection metrics."""
    output, batch = outcome(
        [[RIGHT, RIGHT], [WRONG, WRONG]], [[0.0, 1.0], [0.0, 1.0]], [[1, 2], [1, 2]]
    )
    metrics = compute_metrics(count_batch(output, batch))
    assert metrics.scorer_exact == 0.5
    assert metrics.decidable == 0
    assert metrics.scorer_picks_best is None
    assert metrics.confidence_picks_best is None


def test_padding_rows_are_excluded():
    """A padding row with right answers changes no count."""
    rows = [[RIGHT, WRONG], [RIGHT, RIGHT]]
    scores, labels = [[0.0, 1.0], [1.0, 0.0]], [[1, 2], [1, 2]]
    padded = count_batch(*outcome(rows, scores, labels, real_B=[True, False]))
    bare = count_batch(*outcome(rows[:1], scores[:1], labels[:1]))
    assert padded == bare


def test_a_row_without_labels_is_not_right():
    """Its answer is secret: it is counted separately and excluded from all shares."""
    rows, scores = [[RIGHT, WRONG], [RIGHT, WRONG]], [[0.0, 1.0], [1.0, 0.0]]
    counts = count_batch(*outcome(rows, scores, [[1, 2], [0, 0]]))
    assert replace(counts, unlabelled=0) == count_batch(*outcome(rows[:1], scores[:1], [[1, 2]]))
    assert (counts.rows, counts.unlabelled) == (1, 1)
    assert compute_metrics(counts).oracle_exact == 1.0


def test_usage_entropy_of_four_branches_out_of_eight():
    """log 4 / log 8 = 2/3. None for a single branch."""
    none = {field.name: 0 for field in fields(BranchCounts)} | {"rows": 1}
    spread = compute_metrics(BranchCounts(**none | {"best_K": (2, 2, 2, 2, 0, 0, 0, 0)}))
    assert spread.usage_entropy == pytest.approx(2 / 3)
    assert compute_metrics(BranchCounts(**none | {"best_K": (5,)})).usage_entropy is None


def test_no_rows_have_no_shares():
    """No rows are an error, not a share of 0."""
    with pytest.raises(ValueError, match="rows=0"):
        compute_metrics(
            BranchCounts(**{field.name: 0 for field in fields(BranchCounts)} | {"best_K": (0,)})
        )


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


def counts_of(rows) -> BranchCounts:
    answers, scores, labels = (list(column) for column in zip(*rows, strict=True))
    return count_batch(*outcome(answers, scores, labels))


@given(rows_of_branches)
def test_no_pick_beats_the_oracle(rows):
    """The oracle is at least every pick and at least the mean branch, and none is below 0."""
    counts = counts_of(rows)
    assume(counts.rows)
    metrics = compute_metrics(counts)
    picks = (metrics.scorer_exact, metrics.majority_exact, metrics.confidence_exact)
    assert all(0 <= pick <= metrics.oracle_exact <= 1 for pick in picks)
    assert metrics.mean_branch_exact <= metrics.oracle_exact
    assert counts.scorer_decided <= counts.decidable
    assert 1 <= metrics.distinct_outputs <= len(counts.best_K)
    assert 0 <= metrics.disagreement <= 1


@given(rows_of_branches)
def test_counts_of_parts_add_up_to_those_of_the_whole(rows):
    """Counts of batches and processes can be added."""
    whole, parts = counts_of(rows), counts_of(rows[:1]) + counts_of(rows[1:])
    for field in fields(BranchCounts):
        assert getattr(parts, field.name) == pytest.approx(getattr(whole, field.name))
