"""Branch vectors, which make K branches differ, and soft communication between branches.

Axes: B rows, K branches, S positions with the prefix, D channels.
"""

import torch
from torch import Tensor, nn

from pipeline_lib.params.prr import PrrModelParams


class BranchVectors(nn.Module):
    """The initial latent h of each branch and, optionally, the vector b added at every step."""

    def __init__(self, num_branches: int, width: int, *, every_step: bool) -> None:
        super().__init__()
        self.start_KD = nn.Parameter(torch.randn(num_branches, width))
        self.step_KD = nn.Parameter(torch.randn(num_branches, width)) if every_step else None

    def initial_latents(self, embedded_BSD: Tensor) -> Tensor:
        """Latents [B, K, S, D] before the first step, equal at all positions of a branch."""
        batch, positions, width = embedded_BSD.shape
        start_1K1D = self.start_KD[None, :, None].to(embedded_BSD.dtype)
        return start_1K1D.expand(batch, -1, positions, width)

    def step_input(self, embedded_BSD: Tensor) -> Tensor:
        """Input [B, K or 1, S, D] of every step: the embedding, plus b if enabled."""
        injected_B1SD = embedded_BSD[:, None]
        if self.step_KD is None:
            return injected_B1SD
        return injected_B1SD + self.step_KD[None, :, None].to(embedded_BSD.dtype)


def communicate(
    latents_BKSD: Tensor, scores_BK: Tensor, *, alpha: float, temperature: float
) -> Tensor:
    """Interpolate every branch by ``alpha`` towards the score-weighted mean of all branches.

    Weights are softmax(scores / temperature). The result stays in the convex hull of the branches;
    with ``alpha`` 1 all become equal.
    """
    weights_BK = torch.softmax(scores_BK / temperature, dim=1).to(latents_BKSD.dtype)
    mean_B1SD = torch.einsum("bk,bksd->bsd", weights_BK, latents_BKSD)[:, None]
    return (1 - alpha) * latents_BKSD + alpha * mean_B1SD


def communication_steps(params: PrrModelParams, steps: int) -> tuple[int, ...]:
    """Indices of the steps after which the branches communicate; never the last step."""
    if params.num_branches == 1 or params.alpha == 0:
        return ()
    interval = params.comm_interval
    return tuple(step for step in range(steps - 1) if (step + 1) % interval == 0)


def first_grad_step(params: PrrModelParams, steps: int) -> int:
    """Index of the first step that is part of the gradient."""
    first = steps - params.grad_steps
    communications = communication_steps(params, steps)
    if params.comm_gradient and communications:
        first = min(first, communications[-1])
    return max(first, 0)


def core_passes(params: PrrModelParams, steps: int) -> float:
    """Core passes of all branches of one row, including scoring.

    An answer check is one layer: 1 / layers of a pass.
    """
    scorings = 1 + len(communication_steps(params, steps))
    checks = scorings / params.layers if params.scorer_checks else 0
    return params.num_branches * (steps + checks)
