"""Advantages of tokens, where parts of a reward are about the beginnings of paths.

B paths of a process, T positions of the longest of them, C beginnings of a path; further axes as in the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def prefix_advantages(
    advantages_BK: torch.Tensor, tokens_BC: torch.Tensor, *, width: int
) -> torch.Tensor:
    """[B, T]: the mean over the beginnings that hold a token, and the first of K = C + 1 advantages where none does.

    Example: advantages 1 of the path, 2 and 4 of its beginnings of 1 and 2 tokens give 3, 4, 1, 1 ... to its tokens.
    """
    places_T = tokens_BC.new_ones(width).cumsum(0)
    held_BCT = (places_T <= tokens_BC[:, :, None]).to(advantages_BK.dtype)
    count_BT = held_BCT.sum(1)
    total_BT = (advantages_BK[:, 1:, None] * held_BCT).sum(1)
    return (total_BT / count_BT.clamp(min=1)).where(count_BT > 0, advantages_BK[:, :1])
