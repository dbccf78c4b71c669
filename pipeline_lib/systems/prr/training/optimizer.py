"""Optimizers: AdamATan2 for parameters, sign-SGD for the puzzle vectors used in a step.

Both read the learning rate from ``param_groups`` and apply decoupled weight decay, ``lr`` x
``weight_decay`` per step.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from pipeline_lib.systems.prr.model.embeddings import PuzzleEmbedding


class AdamATan2(torch.optim.Optimizer):
    """Adam with atan2(m, sqrt(v)) instead of m / (sqrt(v) + eps): bounded and scale-invariant.

    Source: Everett et al. 2024 (arXiv:2407.05872), section 4.3.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient; ``closure`` is not called."""
        for group in self.param_groups:
            moved: list[Tensor] = [
                parameter for parameter in group["params"] if parameter.grad is not None
            ]
            if moved:
                self._move(moved, group)

    def _move(self, moved: list[Tensor], group: dict[str, Any]) -> None:
        """Update a group with fused foreach kernels; launches would dominate otherwise."""
        lr, (beta1, beta2) = group["lr"], group["betas"]
        for parameter in moved:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": 0,
                    "mean": torch.zeros_like(parameter),
                    "square": torch.zeros_like(parameter),
                }
            self.state[parameter]["step"] += 1
        gradients = [parameter.grad for parameter in moved if parameter.grad is not None]
        means = [self.state[parameter]["mean"] for parameter in moved]
        squares = [self.state[parameter]["square"] for parameter in moved]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
        torch._foreach_mul_(moved, 1 - lr * group["weight_decay"])
        for parameter, mean, square in zip(moved, means, squares, strict=True):
            step = self.state[parameter]["step"]
            scale = square.sqrt() / math.sqrt(1 - beta2**step)
            parameter.sub_(torch.atan2(mean, scale), alpha=lr / (1 - beta1**step))


class SignSgd(torch.optim.Optimizer):
    """Sign-SGD on the puzzle vectors of the last step's real rows.

    Gradients are summed over rows with the same puzzle. Other vectors neither move nor decay.
    """

    def __init__(self, embedding: PuzzleEmbedding, *, lr: float, weight_decay: float = 0.0) -> None:
        self.embedding = embedding
        weight = embedding.get_buffer("weight")
        super().__init__([weight], {"lr": lr, "weight_decay": weight_decay})

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the vectors used since the last step; ``closure`` is not called."""
        used = self.embedding.used
        if used is None or used.vectors_BD.grad is None:
            return
        self.embedding.used = None
        ids_U, gradients_UD = sum_by_id(used.ids_B[used.real_B], used.vectors_BD.grad[used.real_B])
        group = self.param_groups[0]
        weight_RD = self.embedding.get_buffer("weight")
        kept_UD = weight_RD[ids_U] * (1 - group["lr"] * group["weight_decay"])
        weight_RD[ids_U] = kept_UD - group["lr"] * gradients_UD.sign()


def sum_by_id(ids_B: Tensor, gradients_BD: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct ids [U] and the sum of the gradients of each [U, D]."""
    ids_U, places_B = torch.unique(ids_B, return_inverse=True)
    sums_UD = gradients_BD.new_zeros(len(ids_U), gradients_BD.shape[1])
    return ids_U, sums_UD.index_add_(0, places_B, gradients_BD)
