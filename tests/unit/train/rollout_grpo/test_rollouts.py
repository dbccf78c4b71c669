"""Sequences and metrics of the rollouts of one draw."""

import numpy as np
import pytest

from pipeline_lib.train.offline.token_steps import TokenRow
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout, draw_metrics, weigh_sequences


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
