"""Dr. GRPO: rewards less the mean of their group, not divided by its deviation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def dr_grpo(rewards_PN: torch.Tensor) -> torch.Tensor:
    """``r - mean`` over the scored paths of a group: [P, N], NaN without a score.

    Rewards 1, 0, 0, 1 have mean 1/2: advantages 0.5 and -0.5. Dividing by the deviation would give
    more weight to problems that are nearly always or nearly never solved.

    Source: Liu et al. 2025 (arXiv:2503.20783).
    """
    return rewards_PN - rewards_PN.nanmean(1, keepdim=True)
