"""GRPO over rollouts: sequences, metrics, and losses as hand-worked numbers and gradients."""

import math

import numpy as np
import pytest
import torch

from pipeline_lib.train.offline.bucketed_sft import TokenRow
from pipeline_lib.train.rollout_grpo.losses import group_advantages, sequence_losses
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout, draw_metrics, weigh_sequences

NEW = math.log(0.25)


def test_losses_and_gradients_by_hand():
    """Clip 0.2, weight 0.1; rollouts of 1, 2 and 4 sequences, with padding that would count 9.

    A = 2, n = 1, ratios 1.1 and 1.5: -(2.2 + 2.4) / 2 = -2.3; slopes -2.2 / 2 = -1.1, and 0 beyond the clip.
    A = -1, n = 2, ratio 0.5: 0.8 / 2 = 0.4, clipped, so slope 0.
    A = -1, n = 2, ratios 1.5 and 1: (1.5 + 1) / 2 / 2 = 0.625; slopes 1.5 / 4 and 1 / 4.
    A = 0, n = 4, start twice as likely: 0.1 (2 - 1 - ln 2) = 0.030685; slope 0.1 (1 - 2) = -0.1.
    """
    mask_BT = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 0]], dtype=torch.bool)
    ratios_BT = torch.tensor([[1.1, 1.5], [0.5, 9.0], [1.5, 1.0], [1.0, 9.0]])
    start_BT = torch.tensor([[1.0, 1.0], [1.0, 9.0], [1.0, 1.0], [2.0, 9.0]])
    logprobs_BT = torch.full((4, 2), NEW, requires_grad=True)
    losses_B = sequence_losses(
        logprobs_BT,
        NEW - ratios_BT.log(),
        NEW + start_BT.log(),
        mask_BT=mask_BT,
        advantages_B=torch.tensor([2.0, -1.0, -1.0, 0.0]),
        siblings_B=torch.tensor([1, 2, 2, 4]),
        clip=0.2,
        kl_coef=0.1,
    )
    assert losses_B.tolist() == pytest.approx([-2.3, 0.4, 0.625, 0.0306853], abs=1e-6)
    [slopes_BT] = torch.autograd.grad(losses_B.sum(), logprobs_BT)
    assert slopes_BT.flatten().tolist() == pytest.approx(
        [-1.1, 0, 0, 0, 0.375, 0.25, -0.1, 0], abs=1e-6
    )


def test_advantages_by_hand():
    """1, 0, 0, 1, 0: mean 2/5, standard deviation of the population sqrt(6)/5."""
    rewards_PN = torch.tensor([[1, 0, 0, 1, 0]], dtype=torch.float64)
    up, down = 3 / math.sqrt(6), -2 / math.sqrt(6)
    assert group_advantages(rewards_PN).tolist()[0] == pytest.approx([up, down, down, up, down])


def test_a_failed_rollout_leaves_the_baseline():
    """1, 0 and a failure: mean 1/2, standard deviation 1/2, so 1 and -1; with the failure as 0 they differ."""
    rewards_PN = torch.tensor([[1, 0, math.nan], [1, 0, 0]], dtype=torch.float64)
    first, second = group_advantages(rewards_PN).tolist()
    assert first[:2] == pytest.approx([1, -1])
    assert math.isnan(first[2])
    assert second[0] == pytest.approx(math.sqrt(2))


def test_equal_rewards_have_no_advantage():
    """Rounding of the mean of five times 1.1, some 1e-16, is small beside 1e-10."""
    rewards_PN = torch.full((1, 5), 1.1, dtype=torch.float64)
    assert group_advantages(rewards_PN).abs().max() < 1e-5


def rollout(reward, sequences, **counts):
    rows = [TokenRow(ids_L=np.array([7, 8, place]), loss_from=1) for place in range(sequences)]
    return RewardedRollout(sequences=rows, reward=reward, counts=counts)


def test_all_sequences_have_the_advantage_of_their_rollout():
    """Rewards 1 and 0 have advantages 1 and -1; the second group's are equal, and stay with 0."""
    rollouts = [rollout(1.0, 1), rollout(0.0, 3), rollout(1.0, 2), rollout(1.0, 1)]
    weighed = weigh_sequences(rollouts, group_size=2)
    assert [one.siblings for one in weighed] == [1, 3, 3, 3, 2, 2, 1]
    assert [one.advantage for one in weighed] == pytest.approx([1, -1, -1, -1, 0, 0, 0])


def test_a_failed_rollout_has_no_sequence():
    """Not even those that were drawn before it failed; its group goes on with two."""
    rollouts = [rollout(1.0, 1), rollout(None, 2), rollout(0.0, 1)]
    weighed = weigh_sequences(rollouts, group_size=3)
    assert [one.advantage for one in weighed] == pytest.approx([1, -1])


def test_metrics_are_means_over_rollouts_with_a_reward():
    """Four rollouts, one failed: reward 2/3, children 2, 1 of 4 without reward, 1 of 2 groups equal."""
    rollouts = [
        rollout(1.0, 1, children=3),
        rollout(None, 0),
        rollout(1.0, 1, children=2),
        rollout(0.0, 1, children=1),
    ]
    assert draw_metrics(rollouts, group_size=2) == pytest.approx(
        {
            "unjudged": 0.25,
            "reward": 2 / 3,
            "frac_reward_zero_std": 0.5,
            "rollouts/children": 2.0,
        }
    )


def test_a_draw_of_failures_has_one_metric():
    """There is nothing to take a mean of."""
    assert draw_metrics([rollout(None, 0)] * 2, group_size=2) == {"unjudged": 1.0}
