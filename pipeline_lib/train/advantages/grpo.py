"""GRPO: rewards standardized within their group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_lib.train.advantages.groups import EPSILON, nan_std

if TYPE_CHECKING:
    import torch


def grpo(rewards_PN: torch.Tensor) -> torch.Tensor:
    """``(r - mean) / (std + 1e-4)`` over the scored paths of a group: [P, N].

    NaN without a score, and in a group with fewer than two. Rewards 1, 0, 0, 1 have mean 1/2 and std
    sqrt(1/3) = 0.5774: advantages 0.8659 and -0.8659.

    Source: Shao et al. 2024 (arXiv:2402.03300), section 4.1.2.
    """
    deviations_PN = rewards_PN - rewards_PN.nanmean(1, keepdim=True)
    return deviations_PN / (nan_std(rewards_PN, 1) + EPSILON)
