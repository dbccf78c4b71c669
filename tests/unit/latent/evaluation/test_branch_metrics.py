"""Counts of right answers and of right picks, worked out on a few rows, and their laws."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline_lib.latent.evaluation.branch_answers import answers_of
from pipeline_lib.latent.evaluation.branch_metrics import Counts, counted, metrics_of
from pipeline_lib.latent.model.protocol import Batch, BranchOutput

NUM_TOKENS = 4


def outcome(answers_BKL, scores_BK, labels_BL, *, sure_BK=None, real_B=None):
    """Answers given as tokens: the logit of each is 1, or what ``sure_BK`` says for the branch."""
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
    """One right of three. The scorer picks it, the majority is wrong, the surest one is wrong."""
    output, batch = outcome(
        [[RIGHT, WRONG, WRONG]], [[2.0, 1.0, 0.0]], [[1, 2]], sure_BK=[[1.0, 5.0, 2.0]]
    )
    assert counted(output, batch) == Counts(
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


def test_a_tie_of_votes_goes_to_the_surest():
    """Three different answers, one vote each: the second is the surest, and right."""
    output, batch = outcome(
        [[WRONG, RIGHT, OTHER]], [[0.0, 0.0, 0.0]], [[1, 2]], sure_BK=[[1.0, 3.0, 2.0]]
    )
    assert counted(output, batch).majority == 1


def test_a_tie_of_pairs_goes_to_the_surer_pair():
    """Log-probabilities -.26 and -1.32 against twice -.56: the mean decides, not the one surest branch."""
    output, batch = outcome(
        [[WRONG, WRONG, RIGHT, RIGHT]], [[0.0] * 4], [[1, 2]], sure_BK=[[9.0, 0.1, 3.0, 3.0]]
    )
    counts = counted(output, batch)
    assert (counts.majority, counts.confidence) == (1, 0)


def test_votes_beat_sureness():
    """Two unsure branches agree on the right answer against a sure one."""
    output, batch = outcome(
        [[WRONG, RIGHT, RIGHT]], [[0.0, 0.0, 0.0]], [[1, 2]], sure_BK=[[9.0, 1.0, 1.0]]
    )
    assert counted(output, batch).majority == 1


def test_confidence_by_hand():
    """Logit 1 among four weighs 2 of 5, logit 0 everywhere 1 of 4; an ignored position is left out."""
    logits_BKLV = torch.zeros(1, 1, 3, 4)
    logits_BKLV[0, 0, 0, 1] = 1
    logits_BKLV[0, 0, 2, 1] = 100
    output = BranchOutput(logits_BKLV=logits_BKLV, scores_BK=torch.zeros(1, 1), core_passes=1)
    answers = answers_of(output, lambda _tokens_BKL: np.array([[[True, True, False]]]))
    assert answers.confidences_BK.item() == pytest.approx((math.log(2 / 5) + math.log(1 / 4)) / 2)


def test_where_all_branches_are_right_or_none_no_pick_is_judged():
    """Nothing could be picked better there, so the share of good picks has no such rows."""
    output, batch = outcome(
        [[RIGHT, RIGHT], [WRONG, WRONG]], [[0.0, 1.0], [0.0, 1.0]], [[1, 2], [1, 2]]
    )
    metrics = metrics_of(counted(output, batch))
    assert metrics.scorer_exact == 0.5
    assert metrics.decidable == 0
    assert metrics.scorer_picks_best is None
    assert metrics.confidence_picks_best is None


def test_padded_rows_count_nowhere():
    """A padded row in which everything is right leaves every count as it was."""
    rows = [[RIGHT, WRONG], [RIGHT, RIGHT]]
    scores, labels = [[0.0, 1.0], [1.0, 0.0]], [[1, 2], [1, 2]]
    padded = counted(*outcome(rows, scores, labels, real_B=[True, False]))
    bare = counted(*outcome(rows[:1], scores[:1], labels[:1]))
    assert padded == bare


def test_a_row_without_labels_is_not_right():
    """Nor is it wrong: its answer is secret, so it is counted apart and in no share."""
    rows, scores = [[RIGHT, WRONG], [RIGHT, WRONG]], [[0.0, 1.0], [1.0, 0.0]]
    counts = counted(*outcome(rows, scores, [[1, 2], [0, 0]]))
    assert replace(counts, unlabelled=0) == counted(*outcome(rows[:1], scores[:1], [[1, 2]]))
    assert (counts.rows, counts.unlabelled) == (1, 1)
    assert metrics_of(counts).oracle_exact == 1.0


def test_usage_entropy_of_four_branches_out_of_eight():
    """log 4 / log 8 = 2/3. With a single branch there is nothing to spread over."""
    none = {field.name: 0 for field in fields(Counts)} | {"rows": 1}
    spread = metrics_of(Counts(**none | {"best_K": (2, 2, 2, 2, 0, 0, 0, 0)}))
    assert spread.usage_entropy == pytest.approx(2 / 3)
    assert metrics_of(Counts(**none | {"best_K": (5,)})).usage_entropy is None


def test_no_rows_have_no_shares():
    """0 / 0 is not 0."""
    with pytest.raises(ValueError, match="rows=0"):
        metrics_of(Counts(**{field.name: 0 for field in fields(Counts)} | {"best_K": (0,)}))


tokens = st.integers(1, NUM_TOKENS - 1)
made_rows = st.integers(1, 4).flatmap(
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


def counts_of(rows) -> Counts:
    answers, scores, labels = (list(column) for column in zip(*rows, strict=True))
    return counted(*outcome(answers, scores, labels))


@given(made_rows)
def test_no_pick_beats_the_oracle(rows):
    """The oracle is at least every pick and at least the mean branch, and none is below 0."""
    counts = counts_of(rows)
    assume(counts.rows)
    metrics = metrics_of(counts)
    picks = (metrics.scorer_exact, metrics.majority_exact, metrics.confidence_exact)
    assert all(0 <= pick <= metrics.oracle_exact <= 1 for pick in picks)
    assert metrics.mean_branch_exact <= metrics.oracle_exact
    assert counts.scorer_decided <= counts.decidable
    assert 1 <= metrics.distinct_outputs <= len(counts.best_K)
    assert 0 <= metrics.disagreement <= 1


@given(made_rows)
def test_counts_of_parts_add_up_to_those_of_the_whole(rows):
    """So batches and processes can count apart."""
    whole, parts = counts_of(rows), counts_of(rows[:1]) + counts_of(rows[1:])
    for field in fields(Counts):
        assert getattr(parts, field.name) == pytest.approx(getattr(whole, field.name))
