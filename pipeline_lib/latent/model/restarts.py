"""Restarts of idle branches: one that nobody would miss begins again beside one with too much to do.

Annealing can end with two branches that give the same answers while a third one blends two others
for good: every way out costs loss at first. Of more branches than answers some can be right nowhere.
So each window of training steps tells, per branch, what its absence would cost, how much loss is left
to it and what it is used for, and an idle branch then gets the vectors of the neediest with noise on
them, to share its work. It is what vector quantisation does with dead codes
(Dhariwal et al. 2020, arXiv:2005.00341), and one move of split-and-merge EM (Ueda et al. 2000).

Axes: B rows, K branches, D channels.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from pipeline_lib.latent.model.branches import BranchVectors
from pipeline_lib.latent.model.losses import Demand
from pipeline_lib.latent.model.numerics import gaussian
from pipeline_lib.latent.model.protocol import Carry

_LAST = 0.85
"""Share of training after which there are none: a new start wants time to learn, and the averaged
weights time to forget the old one."""
_NEEDY = 1.75
"""A branch is needy with so many times the mean of the loss left..."""
_IDLE = 0.05
"""... and another idle if its absence would cost less than this share of what is left to that one.

Stuck runs had 1.85 and more, and 0.01 and less. With 1.5 and 0.25 a run was disturbed that would have
split by itself."""
_UNUSED = 0.1
"""A branch used for less than this share of the mean is idle, whether or not another one is needy."""
_NOISE = 0.5
"""Standard deviation, where new vectors have 1. With 0.1 pairs stayed the same for 500 steps."""


def watched(carry: Carry | None, demand: Demand) -> Carry:
    """The sums of the window, by row of the batch, with those of one more step."""
    rows = len(demand.saving_BK)
    now = {
        "saving_BK": demand.saving_BK,
        "left_BK": demand.left_BK,
        "used_BK": demand.used_BK,
        "window_B": torch.ones(rows, dtype=torch.int64, device=demand.left_BK.device),
    }
    return now if carry is None else {name: carry[name] + part for name, part in now.items()}


def idle_and_needy(saving_K: Tensor, left_K: Tensor, used_K: Tensor) -> tuple[int, int] | None:
    """The branch that should begin again, and the one beside which; None where none should.

    Only ratios count, so sums over rows and steps do as well as means.
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
def restarted(
    branches: BranchVectors,
    carry: Carry | None,
    *,
    every: int,
    progress: float,
    generator: torch.Generator | None,
) -> Carry | None:
    """Restart a branch if a window of ``every`` steps is over; the sums go on, or begin again.

    Among several devices the first one decides and draws.
    """
    if carry is None or int(carry["window_B"][0]) < every:
        return carry
    pair = idle_and_needy(*(carry[name].sum(0) for name in ("saving_BK", "left_BK", "used_BK")))
    for vectors_KD in branches.parameters():
        if pair is not None and progress <= _LAST:
            idle, needy = pair
            noise_D = gaussian(vectors_KD[needy], generator)
            vectors_KD[idle] = vectors_KD[needy] + _NOISE * noise_D
        if dist.is_initialized():
            dist.broadcast(vectors_KD, src=0)
    return None
