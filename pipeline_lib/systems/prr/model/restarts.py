"""Reinitialise unused branches next to overloaded ones.

Annealing can converge to a local optimum in which two branches give the same answers while a third
blends two others; with more branches than answers, some can be right nowhere. Over each window of
training steps the demand on every branch is accumulated: the cost of removing it, its share of the
loss, and its use. A dead branch then gets the vectors of the most overloaded one plus noise.

Source: dead-code resets in vector quantisation (Dhariwal et al. 2020, arXiv:2005.00341);
split-and-merge EM (Ueda et al. 2000).

Axes: B rows, K branches, D channels.
"""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline_lib.systems.prr.model.branches import BranchVectors
from pipeline_lib.systems.prr.model.numerics import gaussian
from pipeline_lib.systems.prr.model.protocol import Carry

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
