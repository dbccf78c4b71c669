"""Token rewards, generalized advantage estimation (GAE) and whitening, as pure functions of tensors.

``mask_BT`` is true for drawn tokens, which precede the padding of a row; padding gets zeros.

Axes: B paths, T tokens of a completion.
"""

from dataclasses import dataclass

import torch

_EPSILON = 1e-4
"""Added to a standard deviation before dividing by it, so that rounding errors are not blown up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Constants of the losses."""

    advantages_BT: torch.Tensor
    returns_BT: torch.Tensor
    """Targets of the critic: advantage plus value."""


def token_rewards(
    outcomes_B: torch.Tensor, mask_BT: torch.Tensor, *, penalties_BT: torch.Tensor | None = None
) -> torch.Tensor:
    """The outcome of a path on its last token, less a penalty on every token: [B, T]."""
    rewards_BT = torch.zeros(mask_BT.shape, dtype=outcomes_B.dtype, device=outcomes_B.device)
    last_B1 = mask_BT.sum(-1, keepdim=True) - 1
    rewards_BT.scatter_(-1, last_B1, outcomes_B[:, None])
    if penalties_BT is not None:
        rewards_BT -= penalties_BT * mask_BT
    return rewards_BT


def compute_gae(
    rewards_BT: torch.Tensor,
    values_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> Estimate:
    """Advantages by the backward recursion; the value after the last token is 0.

    Source: Schulman et al. 2016 (arXiv:1506.02438), equations 12 and 16.
    """
    values_BT = values_BT * mask_BT
    advantages_BT = torch.zeros_like(values_BT)
    following_B, next_values_B = torch.zeros_like(values_BT[:, :1].expand(-1, 2)).unbind(-1)
    for token in reversed(range(values_BT.shape[1])):
        delta_B = rewards_BT[:, token] + gamma * next_values_B - values_BT[:, token]
        following_B = (delta_B + gamma * gae_lambda * following_B) * mask_BT[:, token]
        advantages_BT[:, token] = following_B
        next_values_B = values_BT[:, token]
    return Estimate(advantages_BT=advantages_BT, returns_BT=advantages_BT + values_BT)


def whiten(numbers_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Mean 0 and standard deviation 1 over the tokens of the mask; zeros elsewhere."""
    chosen = numbers_BT[mask_BT]
    std = chosen.std(correction=0)
    return (numbers_BT - chosen.mean()) / (std + _EPSILON) * mask_BT
