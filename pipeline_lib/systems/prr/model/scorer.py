"""Predicts the probability that a branch is exactly right, from latents, certainty and answer.

Latents and token certainty cannot detect a confident mistake. The answer check can: it reads
question and answer together, and verifying an answer is easier than finding one.

Axes: B rows, K branches, S positions with the prefix, L without, V tokens, D channels.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.layers import Block, truncated_normal_
from pipeline_lib.systems.prr.model.losses import max_token_logprobs
from pipeline_lib.systems.prr.model.protocol import Sizes

_BIAS = -5.0
"""Initial probability 0.007, close to the accuracy of untrained branches."""


class Scorer(nn.Module):
    """The score of each branch, a logit; `PrrModelParams` selects its inputs.

    Output layers are zero-initialised. No gradient flows to the logits through the score.
    """

    def __init__(self, params: PrrModelParams, sizes: Sizes) -> None:
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
        """Scores [B, K] in float32 of the answers in ``logits_BKLV`` to ``embedded_BSD``."""
        read_BKSD = latents_BKSD[:, :, :1] if self.reads == "first" else latents_BKSD
        hidden_BKH = functional.silu(self.hidden(read_BKSD)).mean(2)
        scores_BK1: Tensor = self.out(hidden_BKH)
        if self.certainty is None and self.check is None:
            return scores_BK1.squeeze(-1).float()
        sure_BKL = max_token_logprobs(logits_BKLV.detach())
        if self.certainty is not None:
            told_BK2 = torch.stack([sure_BKL.sum(-1), sure_BKL.amin(-1)], dim=-1)
            scores_BK1 = scores_BK1 + self.certainty(told_BK2)
        if self.check is not None:
            scores_BK1 = scores_BK1 + self.check(embedded_BSD, logits_BKLV.argmax(-1), sure_BKL)
        return scores_BK1.squeeze(-1).float()


class AnswerCheck(nn.Module):
    """One block over the sum of question and answer embeddings."""

    def __init__(self, params: PrrModelParams, sizes: Sizes) -> None:
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
        """Contribution [B, K, 1] to the score; ``sure_BKL`` are the tokens' log-probabilities."""
        answers_BKLD = self.scale * self.answers(answers_BKL) + self.sure(sure_BKL[..., None])
        answers_BKSD = functional.pad(answers_BKLD, (0, 0, self.prefix, 0))
        seen_BKSD = embedded_BSD[:, None] + answers_BKSD.to(embedded_BSD.dtype)
        judged_NSD = self.block(seen_BKSD.flatten(0, 1))
        added_BK1: Tensor = self.out(judged_NSD.mean(1)).unflatten(0, answers_BKL.shape[:2])
        return added_BK1
