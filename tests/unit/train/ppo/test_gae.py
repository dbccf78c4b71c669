"""GAE: hand-worked numbers, and its definition by n-step returns."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.train.ppo.path_batch import compute_gae, token_rewards, whiten

JUNK = 99.0


def test_two_paths_by_hand():
    """gamma 0.9, lambda 0.5, a right path of three tokens with values 0.5, 0.6, 0.8.

    TD errors: 1 - 0.8 = 0.2; 0.9 x 0.8 - 0.6 = 0.12; 0.9 x 0.6 - 0.5 = 0.04. From the end, with
    0.45 of what follows: 0.2; 0.12 + 0.09 = 0.21; 0.04 + 0.0945 = 0.1345. A wrong path of one token
    with value 0.3: -0.3. Values after its end are ignored.
    """
    mask_BT = torch.tensor([[True, True, True], [True, False, False]])
    values_BT = torch.tensor([[0.5, 0.6, 0.8], [0.3, JUNK, JUNK]])
    rewards_BT = token_rewards(torch.tensor([1.0, 0.0]), mask_BT)
    advantages_BT, returns_BT = compute_gae(
        rewards_BT, values_BT, mask_BT, gamma=0.9, gae_lambda=0.5
    )
    expected_BT = torch.tensor([[0.1345, 0.21, 0.2], [-0.3, 0, 0]])
    torch.testing.assert_close(advantages_BT, expected_BT)
    torch.testing.assert_close(returns_BT, torch.tensor([[0.6345, 0.81, 1.0], [0.0, 0.0, 0.0]]))


def test_the_last_token_has_the_reward_and_each_token_the_penalty():
    """Rewards 1 and 0.5 after two tokens and one; a penalty of 0.25 per token, none in the padding."""
    mask_BT = torch.tensor([[True, True], [True, False]])
    outcomes_B = torch.tensor([1.0, 0.5])
    assert token_rewards(outcomes_B, mask_BT).tolist() == [[0.0, 1.0], [0.5, 0.0]]
    penalties_BT = torch.full((2, 2), 0.25)
    charged_BT = token_rewards(outcomes_B, mask_BT, penalties_BT=penalties_BT)
    assert charged_BT.tolist() == [[-0.25, 0.75], [0.25, 0.0]]


def gae_by_td_errors(rewards, values, gamma, gae_lambda):
    """For each token the discounted sum of its own and all later TD errors."""
    count = len(rewards)
    later = [*values[1:], 0.0]
    surprises = [rewards[t] + gamma * later[t] - values[t] for t in range(count)]
    return [
        sum((gamma * gae_lambda) ** (u - t) * surprises[u] for u in range(t, count))
        for t in range(count)
    ]


def gae_by_n_step_returns(rewards, values, gamma, gae_lambda):
    """The mean of all n-step returns, weighted (1 - lambda) lambda^(n-1), less the value.

    The last one, which reaches the end of the path, has the remaining weight.
    """
    count = len(rewards)

    def returned(t, n):
        sum_of_rewards = sum(gamma**i * rewards[t + i] for i in range(n))
        return sum_of_rewards + (gamma**n * values[t + n] if t + n < count else 0.0)

    def mean(t):
        left = count - t
        weights = [(1 - gae_lambda) * gae_lambda ** (n - 1) for n in range(1, left)]
        weights.append(gae_lambda ** (left - 1))
        return sum(w * returned(t, n) for n, w in enumerate(weights, start=1))

    return [mean(t) - values[t] for t in range(count)]


numbers = st.floats(-2, 2, width=32)
paths = st.lists(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=9), min_size=1, max_size=4
)


@pytest.mark.parametrize("definition", [gae_by_td_errors, gae_by_n_step_returns])
@given(paths=paths, gamma=st.floats(0.1, 1), gae_lambda=st.floats(0, 1))
def test_gae_equals_two_reference_computations(definition, paths, gamma, gae_lambda):
    """Rewards on any token, paths of any length, each computed alone in float64."""
    size = max(map(len, paths))
    rewards_BT, values_BT = np.full((2, len(paths), size), JUNK)
    mask_BT = np.zeros((len(paths), size), dtype=bool)
    for row, path in enumerate(paths):
        rewards_BT[row, : len(path)], values_BT[row, : len(path)] = zip(*path, strict=True)
        mask_BT[row, : len(path)] = True
    advantages_BT, _ = compute_gae(
        torch.from_numpy(rewards_BT),
        torch.from_numpy(values_BT),
        torch.from_numpy(mask_BT),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    for row, path in enumerate(paths):
        rewards, values = map(list, zip(*path, strict=True))
        expected = definition(rewards, values, gamma, gae_lambda)
        np.testing.assert_allclose(advantages_BT[row, : len(path)], expected, atol=1e-9)
        assert not advantages_BT[row, len(path) :].any()


def test_whitening_uses_only_the_tokens_of_the_mask():
    """1, 2 and 3 have mean 2 and std sqrt(2/3): they become -1.2247, 0 and 1.2247."""
    numbers_BT = torch.tensor([[1.0, 2.0], [3.0, JUNK]])
    mask_BT = torch.tensor([[True, True], [True, False]])
    white_BT = whiten(numbers_BT, mask_BT)
    expected_BT = torch.tensor([[-1.2247, 0.0], [1.2247, 0.0]])
    torch.testing.assert_close(white_BT, expected_BT, atol=3e-4, rtol=0)


def test_whitening_does_not_amplify_rounding():
    """Advantages that differ only in their last bits do not become 1 and -1."""
    equal_BT = torch.full((1, 1000), 1 / 3) + torch.arange(1000) % 2 * 1e-7
    assert whiten(equal_BT, torch.ones(1, 1000, dtype=torch.bool)).abs().max() < 1e-2
