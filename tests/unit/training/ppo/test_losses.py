"""Losses of PPO: each number worked by hand, and the gradients that clipping leaves."""

import math

import pytest
import torch

from pipeline_lib.training.ppo.losses import (
    TokenMeans,
    clipped,
    explained_variance,
    k3_kl,
    mean,
    policy_losses,
    total,
    value_losses,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.1, 2.0, -2.2, -2.0),  # inside: minus ratio x advantage
        (1.5, 2.0, -2.4, 0.0),  # good and far up already: 1.2 x 2 is all it gets
        (0.5, 2.0, -1.0, -2.0),  # good and too rare: 0.5 x 2 is below 0.8 x 2, so it may come back
        (0.5, -1.0, 0.8, 0.0),  # bad and far down already: -0.8 is below -0.5
        (1.5, -1.0, 1.5, 1.0),  # bad and too frequent: -1.5 is below -1.2, so it must come back
    ],
)
def test_policy_loss_by_hand(ratio, advantage, loss, slope):
    """Clip 0.2. The slope is that of the loss over the ratio, so over the log-probability it is
    times the ratio."""
    old_BT = torch.tensor([[math.log(0.25)]])
    new_BT = torch.tensor([[math.log(0.25 * ratio)]], requires_grad=True)
    losses_BT = policy_losses(new_BT, old_BT, torch.tensor([[advantage]]), clip=0.2)
    assert losses_BT.item() == pytest.approx(loss)
    losses_BT.sum().backward()
    assert new_BT.grad.item() == pytest.approx(slope * ratio)


@pytest.mark.parametrize(
    ("value", "target", "loss", "slope"),
    [
        (0.6, 1.0, 0.08, -0.4),  # 0.4 off, and moved by less than 0.2: 0.16 / 2
        (0.9, 1.0, 0.045, 0.0),  # 0.1 off, but 0.7 is as far as it may go: 0.3 off, 0.09 / 2
        (0.9, 0.0, 0.405, 0.9),  # moved the wrong way: its own error, 0.81 / 2
    ],
)
def test_value_loss_by_hand(value, target, loss, slope):
    """The old value is 0.5, clip 0.2."""
    value_BT = torch.tensor([[value]], requires_grad=True)
    losses_BT = value_losses(value_BT, torch.tensor([[0.5]]), torch.tensor([[target]]), clip=0.2)
    assert losses_BT.item() == pytest.approx(loss)
    losses_BT.sum().backward()
    assert value_BT.grad.item() == pytest.approx(slope)


def test_sums_and_means_are_over_the_mask():
    """1 and 2 of 1, 2 and 40."""
    numbers_BT = torch.tensor([[1.0, 2.0, 40.0]])
    mask_BT = torch.tensor([[True, True, False]])
    assert total(numbers_BT, mask_BT).item() == 3
    assert mean(numbers_BT, mask_BT) == 1.5


def test_clipped_tokens_are_those_outside_the_range():
    """Ratios 0.7, 0.9, 1.1 and 1.3 with clip 0.2: the first and the last."""
    new_BT = torch.tensor([[0.7, 0.9, 1.1, 1.3]]).log()
    assert clipped(new_BT, torch.zeros(1, 4), clip=0.2).tolist() == [[1, 0, 0, 1]]


def test_the_expected_divergence_is_kl():
    """Over tokens of (0.5, 0.3, 0.2), against (0.2, 0.2, 0.6): the mean estimate is the KL itself.

    0.5 ln 2.5 + 0.3 ln 1.5 + 0.2 ln (1/3) = 0.4581 + 0.1216 - 0.2197 = 0.3601. No estimate is negative.
    """
    policy_V, other_V = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], dtype=torch.double)
    each_V = k3_kl(policy_V.log(), other_V.log())
    assert each_V.min() >= 0
    assert (policy_V * each_V).sum().item() == pytest.approx(0.3601, abs=5e-5)


def test_explained_variance_by_hand():
    """Returns 0 and 1: values 1/4 and 3/4 leave 1/16 of a variance of 1/4, a constant leaves all."""
    mask_BT = torch.tensor([[True, True, False]])
    returns_BT = torch.tensor([[0.0, 1.0, 7.0]])

    def explained(*values: float) -> float | None:
        return explained_variance(torch.tensor([[*values, 3.0]]), returns_BT, mask_BT)

    assert explained(0.25, 0.75) == pytest.approx(0.75)
    assert explained(0.5, 0.5) == pytest.approx(0)
    assert explained(1.0, 0.0) == pytest.approx(-3)
    assert explained_variance(returns_BT, torch.ones(1, 3), mask_BT) is None


def test_a_mean_is_over_all_tokens_not_over_parts():
    """1 and 2 in one part, 6 in another: 3, not the mean 3.75 of the parts' means."""
    means = TokenMeans()
    means.add(torch.tensor([[True, True]]), loss=torch.tensor([[1.0, 2.0]]))
    means.add(torch.tensor([[True, False]]), loss=torch.tensor([[6.0, 50.0]]))
    assert means.means() == {"loss": 3.0}
