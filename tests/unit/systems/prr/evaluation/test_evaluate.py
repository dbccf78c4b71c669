"""Evaluation: padding, noise, several correct answers, answers on ARC canvases, pictures."""

import math

import numpy as np
import pytest
import torch

from pipeline_lib.params.prr import PrrEvaluateParams, PrrLossParams
from pipeline_lib.systems.prr.data.grids import VOCAB_SIZE
from pipeline_lib.systems.prr.evaluation.answers import (
    PICKS,
    BranchAnswers,
    branch_figures,
    decode_answers,
    grid_mask,
    judge_batch,
    pick_by_majority,
    right_by_rule,
)
from pipeline_lib.systems.prr.evaluation.evaluate import evaluate_set, predict_batches
from pipeline_lib.systems.prr.evaluation.pictures import example_svg
from pipeline_lib.systems.prr.model.batches import BranchOutput, evaluation_batches
from pipeline_lib.systems.prr.model.saved_model import build_model, model_sizes
from tests.unit.systems.prr.small_training import MODELS, small_set


@pytest.mark.parametrize("kind", MODELS)
def test_padding_never_counts(kind):
    """Twelve examples in batches of 12, 5 (three padding rows) and 64 (52): equal rows and figures."""
    data = small_set()
    model = build_model(MODELS[kind], model_sizes(data), loss=PrrLossParams())
    whole, *padded = (
        evaluate_set(
            predict_batches(model, data, PrrEvaluateParams(batch_size=size), seed=1)
        ).judged
        for size in (12, 5, 64)
    )
    assert whole.places_B.tolist() == [*range(12)]
    for rows in padded:
        assert (rows.places_B == whole.places_B).all()
        assert (rows.right_BK == whole.right_BK).all()
        # Means of float32 differ in their last digit with the size of a batch.
        assert rows.confidences_BK == pytest.approx(whole.confidences_BK, rel=1e-5)
        assert branch_figures(rows) == pytest.approx(branch_figures(whole), rel=1e-6)


def test_padding_that_would_be_right_does_not_count():
    """A right answer counts once, not also in its two padding copies."""
    data = small_set()
    model = build_model(MODELS["prr"], model_sizes(data), loss=PrrLossParams())
    places, batch = list(evaluation_batches(data, batch_size=11))[-1]
    output = model.predict(batch)
    right = torch.nn.functional.one_hot(batch.labels_BL, 6).float()[:, None]
    output.logits_BKLV[:] = 10 * right
    rows = judge_batch(output, batch, start=places.start)
    assert rows.places_B.tolist() == [11]
    assert [right_B.tolist() for right_B in right_by_rule(rows).values()] == [[True]] * 4


def test_an_evaluation_with_noise_is_reproducible():
    """Equal seeds give equal answers, independent of the RNG state; other seeds differ."""
    data = small_set()
    model = build_model(MODELS["prr"], model_sizes(data), loss=PrrLossParams())
    params = PrrEvaluateParams(batch_size=12, rollouts=2, noise=0.5)

    def confidences(seed: int) -> np.ndarray:
        return next(predict_batches(model, data, params, seed=seed)).answers.confidences_BK

    one, same, other = (confidences(seed) for seed in (1, 1, 2))
    assert one.shape == (12, 6)
    assert (one == same).all()
    assert (one != other).any()


@pytest.mark.parametrize("kind", MODELS)
def test_noise_depends_only_on_the_example(kind):
    """Noise is independent of the batch size, and of the number of rollouts."""
    data = small_set()
    model = build_model(MODELS[kind], model_sizes(data), loss=PrrLossParams())

    def confidences(size: int, rollouts: int) -> np.ndarray:
        params = PrrEvaluateParams(batch_size=size, rollouts=rollouts, noise=0.5)
        parts = predict_batches(model, data, params, seed=1)
        return np.concatenate([part.answers.confidences_BK for part in parts])

    whole = confidences(12, 2)
    assert len(np.unique(whole)) > 12
    # Means of float32 differ in their last digit with the size of a batch.
    assert confidences(5, 2) == pytest.approx(whole, rel=1e-5)
    assert confidences(20, 2) == pytest.approx(whole, rel=1e-5)
    assert confidences(12, 3)[:, : whole.shape[1]] == pytest.approx(whole, rel=1e-5)


def test_branches_without_a_grid_have_no_vote():
    """Two of three branches give no grid; the third is the majority."""
    kept_BKL = np.array([[[0] * 4, [0] * 4, [5, 0, 0, 0]]], dtype=np.uint8)
    answers = BranchAnswers(
        tokens_BKL=kept_BKL,
        kept_BKL=kept_BKL,
        scores_BK=np.zeros((1, 3), dtype=np.float32),
        confidences_BK=np.array([[-np.inf, -np.inf, -5.0]], dtype=np.float32),
    )
    assert pick_by_majority(answers).tolist() == [2]


def test_a_grid_of_one_cell_is_an_answer():
    """Colour 5 - 2 in the corner of a 2 x 2 canvas is preferred to a branch without a grid.

    Its logit 3 weighs 1 + 3 of 4 + 11: log-probability ln(4 / 15).
    """
    tokens_KL = torch.tensor([[0, 1, 1, 0], [5, 1, 1, 0]])
    logits_BKLV = 3 * torch.nn.functional.one_hot(tokens_KL, VOCAB_SIZE)[None].float()
    output = BranchOutput(logits_BKLV=logits_BKLV, scores_BK=torch.zeros(1, 2), core_passes=1)
    answers = decode_answers(output, grid_mask)
    assert answers.kept_BKL.tolist() == [[[0] * 4, [5, 0, 0, 0]]]
    assert answers.confidences_BK[0] == pytest.approx([-np.inf, math.log(4 / 15)])
    assert PICKS["confidence"](answers).tolist() == pick_by_majority(answers).tolist() == [1]


def test_tokens_outside_of_the_grid_are_ignored():
    """On a 3 x 3 canvas a 1 x 2 grid is cropped; tokens outside of it differ and are ignored.

    Without any colour in the corner there is no answer, and no vote for it.
    """
    tokens_BKL = np.array(
        [[[5, 6, 1, 1, 1, 0, 0, 0, 0], [5, 6, 1, 1, 1, 0, 7, 7, 7], [0] * 9]], dtype=np.uint8
    )
    inside = grid_mask(tokens_BKL)
    assert inside.sum(-1).tolist() == [[2, 2, 0]]
    answers = BranchAnswers(
        tokens_BKL=tokens_BKL,
        kept_BKL=np.where(inside, tokens_BKL, np.uint8(0)),
        scores_BK=np.zeros((1, 3), dtype=np.float32),
        confidences_BK=np.array([[-2.0, -1.0, -np.inf]], dtype=np.float32),
    )
    assert pick_by_majority(answers).tolist() == [0]


def test_a_picture_frames_correct_outputs():
    """Input, target and two branches: four grids of four cells, one green frame, notes escaped."""
    label_L = np.array([2, 3, 4, 5], dtype=np.uint8)
    wrong_L = np.array([2, 3, 4, 4], dtype=np.uint8)
    picture = example_svg(
        inputs_L=label_L,
        labels_L=label_L,
        outputs_KL=np.stack([label_L, wrong_L]),
        notes_K=["sure", "a < b"],
        is_arc=False,
    )
    assert picture.count("<rect") == 4 * 4 + 4
    assert picture.count('stroke="#1a7f37"') == 1
    assert "a &lt; b" in picture


def test_a_picture_of_a_secret_answer_frames_nothing():
    """Without a label no output counts as correct."""
    input_L = np.array([2, 3, 4, 5], dtype=np.uint8)
    picture = example_svg(
        inputs_L=input_L,
        labels_L=np.zeros_like(input_L),
        outputs_KL=np.stack([input_L, np.zeros_like(input_L)]),
        notes_K=["one", "other"],
        is_arc=False,
    )
    assert "#1a7f37" not in picture
    assert "target (secret)" in picture
