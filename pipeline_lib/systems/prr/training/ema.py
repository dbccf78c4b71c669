"""Exponential moving average of a model's parameters, used for evaluation and published.

Buffers are not averaged: the average of a rarely updated puzzle vector would lag far behind.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Ema:
    """average <- decay * average + (1 - decay) * parameter, after every step."""

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        self._averages = {
            name: parameter.detach().clone() for name, parameter in self._parameters.items()
        }

    @torch.no_grad()
    def update(self) -> None:
        """Update the averages with the current parameters."""
        torch._foreach_lerp_(
            list(self._averages.values()), list(self._parameters.values()), 1 - self.decay
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averages as the model's parameters within the block."""
        trained = {name: value.detach().clone() for name, value in self._parameters.items()}
        self._set(self._averages)
        try:
            yield
        finally:
            self._set(trained)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by parameter name."""
        return dict(self._averages)

    @torch.no_grad()
    def load_state_dict(self, averages: Mapping[str, Tensor]) -> None:
        """Restore averages of the same model; KeyError if one is missing."""
        for name, average in self._averages.items():
            average.copy_(averages[name])

    @torch.no_grad()
    def _set(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])
