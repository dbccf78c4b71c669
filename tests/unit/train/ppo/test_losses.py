"""Losses of PPO: hand-worked numbers, and gradients under clipping."""

import math

import pytest
import torch

from pipeline_lib.train.ppo.losses import (
    TokenMeans,
    clip_indicators,
    explained_variance,
    k3_kl,
    policy_losses,
    value_losses,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.1, 2.0, -2.2, -2.0),  # inside the clip: minus ratio x advantage
        (1.5, 2.0, -2.4, 0.0),  # advantage > 0, ratio above the clip: 1.2 x 2, no gradient
        (0.5, 2.0, -1.0, -2.0),  # advantage > 0, ratio below: 0.5 x 2 < 0.8 x 2, so it is unclipped
        (0.5, -1.0, 0.8, 0.0),  # advantage < 0, ratio below the clip: -0.8 < -0.5, no gradient
        (1.5, -1.0, 1.5, 1.0),  # advantage < 0, ratio above: -1.5 < -1.2, so it is unclipped
    ],
)
def test_policy_loss_by_hand(ratio, advantage, loss, slope):
    """Clip 0.2. The slope is dloss/dratio; the gradient by the log-probability is slope x ratio."""
    old_BT = torch.tensor([[math.log(0.25)]])
    new_BT = torch.tensor([[math.log(0.25 * ratio)]], requires_grad=True)
    losses_BT = policy_losses(new_BT, old_BT, torch.tensor([[advantage]]), clip=0.2)
    assert losses_BT.item() == pytest.approx(loss)
    losses_BT.sum().backward()
    assert new_BT.grad.item() == pytest.approx(slope * ratio)


@pytest.mark.parametrize(
    ("value", "target", "loss", "slope"),
    [
        (0.6, 1.0, 0.08, -0.4),  # error 0.4, moved by less than 0.2: 0.16 / 2
        (0.9, 1.0, 0.045, 0.0),  # error 0.1, but clipped to 0.7: error 0.3, 0.09 / 2
        (0.9, 0.0, 0.405, 0.9),  # moved away from the target: unclipped error, 0.81 / 2
    ],
)
def test_value_loss_by_hand(value, target, loss, slope):
    """The old value is 0.5, clip 0.2."""
    value_BT = torch.tensor([[value]], requires_grad=True)
    losses_BT = value_losses(value_BT, torch.tensor([[0.5]]), torch.tensor([[target]]), clip=0.2)
    assert losses_BT.item() == pytest.approx(loss)
    losses_BT.sum().backward()
    assert value_BT.grad.item() == pytest.approx(slope)


def test_clip_indicators_mark_ratios_outside_the_range():
    """Ratios 0.7, 0.9, 1.1 and 1.3 with clip 0.2: the first and the last."""
    new_BT = torch.tensor([[0.7, 0.9, 1.1, 1.3]]).log()
    assert clip_indicators(new_BT, torch.zeros(1, 4), clip=0.2).tolist() == [[1, 0, 0, 1]]


def test_the_expectation_of_k3_is_the_kl():
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


def test_token_means_are_over_all_tokens():
    """1 and 2 in one micro-batch, 6 in another: 3, not the mean 3.75 of the two means."""
    means = TokenMeans()
    means.add(torch.tensor([[True, True]]), loss=torch.tensor([[1.0, 2.0]]))
    means.add(torch.tensor([[True, False]]), loss=torch.tensor([[6.0, 50.0]]))
    assert means.means() == {"loss": 3.0}
