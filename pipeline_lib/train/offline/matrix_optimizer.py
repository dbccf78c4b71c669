"""Muon for the matrices of a model's layers, AdamW for all other parameters, as one optimizer.

Source: Jordan et al. 2024, Muon; torch's implementation takes matrices alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from typing_extensions import override

_BETAS = (0.9, 0.95)


class MuonWithAdamW(torch.optim.Optimizer):
    """Both optimizers with their parameter groups in one list, so that one schedule moves both rates."""

    def __init__(
        self, matrices: list[nn.Parameter], others: list[nn.Parameter], *, lr: float, muon_lr: float
    ) -> None:
        self._parts = {
            "muon": torch.optim.Muon(matrices, lr=muon_lr, weight_decay=0.0),
            "adamw": _adamw(others, lr),
        }
        super().__init__([*matrices, *others], {"lr": lr})
        self.param_groups = [group for part in self._parts.values() for group in part.param_groups]

    @override
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        if closure is not None:
            raise ValueError("MuonWithAdamW takes no closure; call backward before step")
        for part in self._parts.values():
            part.step()

    @override
    def state_dict(self) -> dict[str, Any]:
        """The states of both."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    @override
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore both."""
        for name, part in self._parts.items():
            part.load_state_dict(state_dict[name])
        self.param_groups = [group for part in self._parts.values() for group in part.param_groups]


def make_optimizer(model: Any, *, lr: float, muon_lr: float | None) -> torch.optim.Optimizer:
    """The optimizer of all parameters of a Llama; without ``muon_lr`` AdamW alone."""
    parameters = list(model.parameters())
    if muon_lr is None:
        return _adamw(parameters, lr)
    matrices = [one for one in model.model.layers.parameters() if one.ndim == 2]
    known = {id(one) for one in matrices}
    others = [one for one in parameters if id(one) not in known]
    return MuonWithAdamW(matrices, others, lr=lr, muon_lr=muon_lr)


def _adamw(parameters: list[nn.Parameter], lr: float) -> torch.optim.AdamW:
    # The fused kernel takes exact square roots; MKL's, in its reproducible mode, differ between processors.
    return torch.optim.AdamW(parameters, lr=lr, betas=_BETAS, weight_decay=0.0, fused=True)
