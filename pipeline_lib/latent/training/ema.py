"""An exponential moving average of a model's parameters, to evaluate with and to keep.

Puzzle vectors and other buffers are not averaged: a vector that is seen rarely would lag for ever.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Ema:
    """average <- decay x average + (1 - decay) x parameter, after every step."""

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay = decay
        self._parameters = dict(model.named_parameters())
        self._averages = {
            name: parameter.detach().clone() for name, parameter in self._parameters.items()
        }

    @torch.no_grad()
    def update(self) -> None:
        """Take in the parameters as they are now."""
        torch._foreach_lerp_(
            list(self._averages.values()), list(self._parameters.values()), 1 - self.decay
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the model has the averages for its parameters."""
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
        """Go on from averages of the same model; KeyError where one is missing."""
        for name, average in self._averages.items():
            average.copy_(averages[name])

    @torch.no_grad()
    def _set(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])
