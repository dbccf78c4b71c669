"""REINFORCE leave-one-out: the baseline of a path is the mean reward of the others of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def rloo(rewards_PN: torch.Tensor) -> torch.Tensor:
    """``r - mean of the other scored paths``: [P, N], N / (N - 1) times the advantages of Dr. GRPO.

    NaN without a score, and in a group with fewer than two. Rewards 1, 0, 0, 1: the others of a right path
    have mean 1/3, the others of a wrong one 2/3, so advantages are 2/3 and -2/3.

    Source: Ahmadian et al. 2024 (arXiv:2402.14740), after Kool et al. 2019.
    """
    others_PN = rewards_PN.nansum(1, keepdim=True) - rewards_PN
    count_P1 = (~rewards_PN.isnan()).sum(1, keepdim=True)
    return rewards_PN - others_PN / (count_P1 - 1)
