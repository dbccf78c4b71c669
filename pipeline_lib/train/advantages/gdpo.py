"""GDPO: each part of a reward is standardized within its group before the parts are summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline_lib.train.advantages.groups import EPSILON, nan_std, sum_parts

if TYPE_CHECKING:
    import torch


def gdpo(rewards_PNK: torch.Tensor, *, weights_K: Sequence[float] | None = None) -> torch.Tensor:
    """Weighted sum [P, N] of the parts' group-relative advantages, standardized over the batch.

    A part with a small scale then counts as much as one with a large scale; without ``weights_K`` all parts
    count alike. A part without a score counts as one at the mean of its group; a path without any is NaN.
    Example, up to epsilon: of two paths with parts (1, 3) and (0, 1), each part deviates by 0.7071 of its std.
    The sums 1.4142 and -1.4142 have a std of 2 over the batch: advantages 0.7071 and -0.7071.

    Source: Liu et al. 2026 (arXiv:2601.05242).
    """
    deviations_PNK = rewards_PNK - rewards_PNK.nanmean(1, keepdim=True)
    normalized_PNK = deviations_PNK / (nan_std(rewards_PNK, 1) + EPSILON)
    if weights_K is not None:
        normalized_PNK = normalized_PNK * normalized_PNK.new_tensor(weights_K)
    total_PN = sum_parts(normalized_PNK, rewards_PNK)
    total_B = total_PN.flatten()
    return (total_PN - total_B.nanmean()) / (nan_std(total_B, 0) + EPSILON)
