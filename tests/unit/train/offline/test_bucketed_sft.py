"""The loss of padded passes."""

import numpy as np
import pytest
import torch

from pipeline_lib.train.offline.bucketed_sft import pad, summed_loss
from pipeline_lib.train.offline.labelled_scores import IGNORED
from pipeline_lib.train.offline.token_steps import TokenRow
from tests.unit.train.offline.test_matrix_optimizer import small_llama


def row(length: int, loss_from: int) -> TokenRow:
    ids = np.random.default_rng(length).integers(2, 32, length).astype(np.int32)
    return TokenRow(ids_L=ids, loss_from=loss_from)


ROWS = [row(9, 4), row(3, 0), row(6, 5)]


def test_padding_has_no_label():
    """Of 3 x 9 columns, padded to 16, those behind a row and before its loss are ignored."""
    ids_BL, labels_BL = pad(ROWS, pad_id=0)
    assert ids_BL.shape == labels_BL.shape == (3, 16)
    assert (labels_BL != IGNORED).sum(1).tolist() == [5, 3, 1]
    assert ids_BL[1, 3:].tolist() == [0] * 13
    assert labels_BL[2, 5] == ids_BL[2, 5] == ROWS[2].ids_L[5]


def test_the_loss_is_the_sum_over_single_rows():
    """By the model's own mean loss of each row alone, times its labelled tokens that are predicted: 5, 2, 1."""
    model = small_llama()
    whole = summed_loss(model, *pad(ROWS, pad_id=0))
    single = 0.0
    for one, predicted in zip(ROWS, (5, 2, 1), strict=True):
        ids_BL, labels_BL = pad([one], pad_id=0)
        single += model(input_ids=ids_BL, labels=labels_BL).loss.item() * predicted
    assert whole.item() == pytest.approx(single, rel=1e-5)


def test_prefixes_have_no_gradient():
    """A token that occurs in prefixes alone, and is no candidate of the loss, moves nothing as a target."""
    model = small_llama()
    ids_BL, labels_BL = pad([row(9, 4)], pad_id=0)
    other_BL = labels_BL.clone()
    other_BL[:, :4] = IGNORED
    assert torch.equal(summed_loss(model, ids_BL, labels_BL), summed_loss(model, ids_BL, other_BL))
