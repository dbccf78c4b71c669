"""What makes K branches differ, and what lets them talk: branch vectors and soft communication.

Axes: B rows, K branches, S positions with the prefix, L without, V tokens, D channels.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from pipeline_lib.latent.losses import likeliest_log_probabilities
from pipeline_lib.params.latent import LatentModelParams

_SCORER_BIAS = -5.0
"""At the start a branch is thought to be right with probability 0.007, which untrained ones are."""


class BranchVectors(nn.Module):
    """The start h of each branch, and, if asked for, the vector b that it adds at every step."""

    def __init__(self, num_branches: int, width: int, *, every_step: bool) -> None:
        super().__init__()
        self.start_KD = nn.Parameter(torch.randn(num_branches, width))
        self.step_KD = nn.Parameter(torch.randn(num_branches, width)) if every_step else None

    def start(self, embedded_BSD: Tensor) -> Tensor:
        """Latents [B, K, S, D] before the first step, each branch the same at all positions."""
        batch, positions, width = embedded_BSD.shape
        start_1K1D = self.start_KD[None, :, None].to(embedded_BSD.dtype)
        return start_1K1D.expand(batch, -1, positions, width)

    def injected(self, embedded_BSD: Tensor) -> Tensor:
        """What every step adds to the latents, [B, K or 1, S, D]: e, and b of the branch."""
        injected_B1SD = embedded_BSD[:, None]
        if self.step_KD is None:
            return injected_B1SD
        return injected_B1SD + self.step_KD[None, :, None].to(embedded_BSD.dtype)


class Scorer(nn.Module):
    """Reads off a branch's latents whether its answer is exactly right, as a logit.

    With ``certainty`` it is told how sure the answer is, too: the log-probability of the whole and
    that of its least sure token. It learns what they are worth; the answer does not learn from it.
    """

    def __init__(self, width: int, *, reads: Literal["first", "all"], certainty: bool) -> None:
        super().__init__()
        self.reads = reads
        self.hidden = nn.Linear(width, width // 2)
        self.out = nn.Linear(width // 2, 1)
        self.certainty = nn.Linear(2, 1, bias=False) if certainty else None
        if self.certainty is not None:
            nn.init.zeros_(self.certainty.weight)
        nn.init.zeros_(self.hidden.bias)
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, _SCORER_BIAS)

    @override
    def forward(self, latents_BKSD: Tensor, logits_BKLV: Tensor) -> Tensor:
        """Scores [B, K] in float32 of the answers that ``logits_BKLV`` give."""
        read_BKSD = latents_BKSD[:, :, :1] if self.reads == "first" else latents_BKSD
        hidden_BKH = nn.functional.silu(self.hidden(read_BKSD)).mean(2)
        scores_BK1: Tensor = self.out(hidden_BKH)
        if self.certainty is not None:
            sure_BKL = likeliest_log_probabilities(logits_BKLV.detach())
            told_BK2 = torch.stack([sure_BKL.sum(-1), sure_BKL.amin(-1)], dim=-1)
            scores_BK1 = scores_BK1 + self.certainty(told_BK2)
        return scores_BK1.squeeze(-1).float()


def communicated(
    latents_BKSD: Tensor, scores_BK: Tensor, *, alpha: float, temperature: float
) -> Tensor:
    """Move every branch by ``alpha`` to the mean of all, weighed by softmax of their scores.

    The result stays in the convex hull of the branches; with ``alpha`` 1 they become equal.
    """
    weights_BK = torch.softmax(scores_BK / temperature, dim=1).to(latents_BKSD.dtype)
    mean_B1SD = torch.einsum("bk,bksd->bsd", weights_BK, latents_BKSD)[:, None]
    return (1 - alpha) * latents_BKSD + alpha * mean_B1SD


def communication_steps(params: LatentModelParams, steps: int) -> tuple[int, ...]:
    """The steps, counted from 0, after which the branches communicate; never the last one."""
    if params.num_branches == 1 or params.alpha == 0:
        return ()
    interval = params.comm_interval
    return tuple(step for step in range(steps - 1) if (step + 1) % interval == 0)


def first_grad_step(params: LatentModelParams, steps: int) -> int:
    """The step, counted from 0, from which on gradients flow."""
    first = steps - params.grad_steps
    communications = communication_steps(params, steps)
    if params.comm_gradient and communications:
        first = min(first, communications[-1])
    return max(first, 0)
