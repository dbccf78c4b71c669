"""Statistics of groups that skip missing scores (NaN).

Axes as in the package.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

EPSILON = 1e-4
"""Added to a standard deviation before dividing by it, as TRL does."""


def nan_std(rewards: torch.Tensor, dim: int) -> torch.Tensor:
    """Standard deviation along ``dim``, which is kept with size 1; NaN of fewer than two scores.

    The variance divides by one less than the number of scores (Bessel's correction).
    """
    deviations = rewards - rewards.nanmean(dim, keepdim=True)
    count = (~rewards.isnan()).sum(dim, keepdim=True)
    # A single score has a variance of 0 and a correction of 1 / 0: their product is NaN.
    return ((deviations**2).nanmean(dim, keepdim=True) * (count / (count - 1))).sqrt()


def sum_parts(parts_PNK: torch.Tensor, rewards_PNK: torch.Tensor) -> torch.Tensor:
    """Sum [P, N] of the parts, NaN for a path whose ``rewards_PNK`` are all missing.

    A part that is missing beside others counts as 0.
    """
    return parts_PNK.nansum(-1).masked_fill(rewards_PNK.isnan().all(-1), math.nan)
