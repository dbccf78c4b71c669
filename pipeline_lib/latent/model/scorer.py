"""How likely a branch is to be exactly right, as its latents, its certainty and its answer tell.

The latents say what the branch thought, and the certainty how sure it came out of that. Neither looks
at the answer again: a branch that is sure of a mistake stays sure. The check does, and to see that an
answer breaks a rule is easier than to find one that does not.

Axes: B rows, K branches, S positions with the prefix, L without, V tokens, D channels.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from pipeline_lib.latent.model.layers import Block, truncated_normal_
from pipeline_lib.latent.model.losses import likeliest_log_probabilities
from pipeline_lib.latent.model.protocol import Sizes
from pipeline_lib.params.latent import LatentModelParams

_BIAS = -5.0
"""At the start a branch is thought to be right with probability 0.007, which untrained ones are."""


class Scorer(nn.Module):
    """The score of each branch, a logit; see `LatentModelParams` for what it may read.

    It learns what its sources are worth; the answers do not learn from being scored.
    """

    def __init__(self, params: LatentModelParams, sizes: Sizes) -> None:
        super().__init__()
        width = params.width
        self.reads = params.scorer_reads
        self.hidden = nn.Linear(width, width // 2)
        self.out = nn.Linear(width // 2, 1)
        self.certainty = nn.Linear(2, 1, bias=False) if params.scorer_certainty else None
        if self.certainty is not None:
            nn.init.zeros_(self.certainty.weight)
        nn.init.zeros_(self.hidden.bias)
        nn.init.zeros_(self.out.weight)
        nn.init.constant_(self.out.bias, _BIAS)
        self.check = AnswerCheck(params, sizes) if params.scorer_checks else None

    @override
    def forward(self, latents_BKSD: Tensor, logits_BKLV: Tensor, embedded_BSD: Tensor) -> Tensor:
        """Scores [B, K] in float32 of the answers that ``logits_BKLV`` give to what was asked."""
        read_BKSD = latents_BKSD[:, :, :1] if self.reads == "first" else latents_BKSD
        hidden_BKH = functional.silu(self.hidden(read_BKSD)).mean(2)
        scores_BK1: Tensor = self.out(hidden_BKH)
        if self.certainty is None and self.check is None:
            return scores_BK1.squeeze(-1).float()
        sure_BKL = likeliest_log_probabilities(logits_BKLV.detach())
        if self.certainty is not None:
            told_BK2 = torch.stack([sure_BKL.sum(-1), sure_BKL.amin(-1)], dim=-1)
            scores_BK1 = scores_BK1 + self.certainty(told_BK2)
        if self.check is not None:
            scores_BK1 = scores_BK1 + self.check(embedded_BSD, logits_BKLV.argmax(-1), sure_BKL)
        return scores_BK1.squeeze(-1).float()


class AnswerCheck(nn.Module):
    """Sees question and answer side by side, through one block of its own."""

    def __init__(self, params: LatentModelParams, sizes: Sizes) -> None:
        super().__init__()
        self.prefix = params.prefix_tokens
        self.scale = math.sqrt(params.width)
        self.answers = nn.Embedding(sizes.vocab_size, params.width)
        truncated_normal_(self.answers.weight.data, std=1 / self.scale)
        self.sure = nn.Linear(1, params.width, bias=False)
        self.block = Block(params, positions=params.prefix_tokens + sizes.seq_len)
        self.out = nn.Linear(params.width, 1, bias=False)
        nn.init.zeros_(self.out.weight)
        if params.compiled:
            self.block.compile()

    @override
    def forward(self, embedded_BSD: Tensor, answers_BKL: Tensor, sure_BKL: Tensor) -> Tensor:
        """[B, K, 1]: what answers with these log-probabilities of their tokens add to the score."""
        answers_BKLD = self.scale * self.answers(answers_BKL) + self.sure(sure_BKL[..., None])
        answers_BKSD = functional.pad(answers_BKLD, (0, 0, self.prefix, 0))
        seen_BKSD = embedded_BSD[:, None] + answers_BKSD.to(embedded_BSD.dtype)
        judged_NSD = self.block(seen_BKSD.flatten(0, 1))
        added_BK1: Tensor = self.out(judged_NSD.mean(1)).unflatten(0, answers_BKL.shape[:2])
        return added_BK1
