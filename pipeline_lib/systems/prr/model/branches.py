"""Branch vectors, which make K branches differ, their restarts, and soft communication between branches.

Axes: B rows, K branches, S positions with the prefix, D channels.
"""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.batches import Carry
from pipeline_lib.systems.prr.model.layers import gaussian


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


_LAST = 0.85
"""Share of training after which no branch is reinitialised: it and the averaged weights need time
to adapt."""
_NEEDY = 1.75
"""A branch is overloaded if its share of the loss is above this multiple of the mean..."""
_IDLE = 0.05
"""... and another is dead if removing it would cost less than this share of that loss.

Stuck runs had ratios above 1.85 and below 0.01. Thresholds of 1.5 and 0.25 disturbed a run that
would
have separated by itself."""
_UNUSED = 0.1
"""A branch with use below this share of the mean is dead, even if none is overloaded."""
_NOISE = 0.5
"""Standard deviation; initial vectors have 1. With 0.1, pairs stayed equal for 500 steps."""


def accumulate_demand(carry: Carry | None, demand: Mapping[str, Tensor]) -> Carry:
    """Add one step's demand to the sums of the window, per row of the batch.

    Steps are counted on the host, which reads their number at every step.
    """
    steps_B = torch.ones(len(demand["saving_BK"]), dtype=torch.int64)
    now = {**demand, "window_B": steps_B}
    if carry is None:
        return now
    # A checkpoint puts all of it on the device.
    return {name: carry[name].to(part.device) + part for name, part in now.items()}


def dead_and_overloaded(saving_K: Tensor, left_K: Tensor, used_K: Tensor) -> tuple[int, int] | None:
    """Indices of a dead branch and of the overloaded one to copy; None if there is no such pair.

    Only ratios matter, so sums over rows and steps are sufficient.
    """
    needy = int(left_K.argmax())
    most = left_K[needy]
    missed_K = saving_K >= _IDLE * most
    least_used = int(used_K.masked_fill(missed_K, torch.inf).argmin())
    if missed_K[least_used] or least_used == needy:
        return None
    unused = used_K[least_used] < _UNUSED * used_K.mean()
    return (least_used, needy) if unused or most > _NEEDY * left_K.mean() else None


@torch.no_grad()
def reinit_dead_branches(
    branches: BranchVectors,
    carry: Carry | None,
    *,
    every: int,
    progress: float,
    generator: torch.Generator | None,
) -> Carry | None:
    """Reinitialise a dead branch at the end of a window of ``every`` steps; returns the new carry.

    Annealing can converge to a local optimum in which two branches give the same answers while a third blends two
    others. A dead branch gets the vectors of the most overloaded one plus noise.

    Source: dead-code resets (Dhariwal et al. 2020, arXiv:2005.00341); split-and-merge EM (Ueda et al. 2000).

    With several processes, rank 0 decides and broadcasts the vectors.
    """
    if carry is None or int(carry["window_B"][0]) < every:
        return carry
    pair = dead_and_overloaded(
        *(carry[name].sum(0) for name in ("saving_BK", "left_BK", "used_BK"))
    )
    for vectors_KD in branches.parameters():
        if pair is not None and progress <= _LAST:
            idle, needy = pair
            noise_D = gaussian(vectors_KD[needy], generator)
            vectors_KD[idle] = vectors_KD[needy] + _NOISE * noise_D
        if dist.is_initialized():
            dist.broadcast(vectors_KD, src=0)
    return None
