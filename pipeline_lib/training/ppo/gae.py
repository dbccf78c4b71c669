"""What each token was worth: rewards on tokens, and generalized advantage estimation (GAE).

Pure tensors; where rewards and values come from is not known here. Tokens that were not drawn
(``mask_BT`` false) stand after those that were, and get zeros.

Axes: B paths, T tokens of a completion.
"""

from dataclasses import dataclass

import torch

_SMALL = 1e-4
"""Added to a spread before dividing by it: advantages that differ by rounding alone stay small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Both are constants to the losses."""

    advantages_BT: torch.Tensor
    returns_BT: torch.Tensor
    """What the values should have been: advantage plus value."""


def token_rewards(
    rewards_B: torch.Tensor, mask_BT: torch.Tensor, *, penalties_BT: torch.Tensor | None = None
) -> torch.Tensor:
    """A path's reward on its last token, less a penalty on every token: [B, T]."""
    rewards_BT = torch.zeros(mask_BT.shape, dtype=rewards_B.dtype, device=rewards_B.device)
    last_B1 = mask_BT.sum(-1, keepdim=True) - 1
    rewards_BT.scatter_(-1, last_B1, rewards_B[:, None])
    if penalties_BT is not None:
        rewards_BT -= penalties_BT * mask_BT
    return rewards_BT


def estimated(
    rewards_BT: torch.Tensor,
    values_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> Estimate:
    """Advantages from the last token backwards. Nothing comes after it: a path ends, its value is 0.

    Source: Schulman et al. 2016 (arXiv:1506.02438), equations 12 and 16.
    """
    values_BT = values_BT * mask_BT
    advantages_BT = torch.zeros_like(values_BT)
    following_B, next_values_B = torch.zeros_like(values_BT[:, :1].expand(-1, 2)).unbind(-1)
    for token in reversed(range(values_BT.shape[1])):
        surprise_B = rewards_BT[:, token] + gamma * next_values_B - values_BT[:, token]
        following_B = (surprise_B + gamma * gae_lambda * following_B) * mask_BT[:, token]
        advantages_BT[:, token] = following_B
        next_values_B = values_BT[:, token]
    return Estimate(advantages_BT=advantages_BT, returns_BT=advantages_BT + values_BT)


def whitened(numbers_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Shifted to mean 0 and scaled to spread 1 over the tokens of the mask; zeros elsewhere."""
    chosen = numbers_BT[mask_BT]
    spread = chosen.std(correction=0)
    return (numbers_BT - chosen.mean()) / (spread + _SMALL) * mask_BT
