"""Means over tokens, gathered part by part."""

from collections import defaultdict

import torch


class Tally:
    """Sums of figures of tokens, and how many tokens there were."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._tokens = 0

    def add(self, mask_BT: torch.Tensor, **figures_BT: torch.Tensor) -> None:
        """Count the tokens of ``mask_BT``; always with the same names."""
        self._tokens += int(mask_BT.sum())
        for name, figure_BT in figures_BT.items():
            self._sums[name] += float((figure_BT.detach() * mask_BT).sum())

    def means(self) -> dict[str, float]:
        """Mean of each figure over all tokens so far; there must have been one."""
        return {name: value / self._tokens for name, value in self._sums.items()}
