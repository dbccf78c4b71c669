"""Parallel latent branches (PRR): K latents per example pass through one shared recursive core.

A learned scorer predicts the probability that a branch is exactly right, from latents, certainty and answer. Latents
and token certainty cannot detect a confident mistake; the answer check reads question and answer together.

Gradients: the core, token embedding, output head and puzzle vectors are always trained, the scorer
by its own loss. Branch vectors b are always trained, because every step in the gradient adds them.
The initial latents h are trained only with ``grad_steps`` = ``steps``; otherwise the first steps
run without gradients and h keeps its random initialisation. Communication is differentiated only
inside the gradient steps; by default the last one is one step earlier, and ``comm_gradient``
extends the gradient to include it. Unused branches may be reinitialised (see `reinit_dead_branches`).

Axes: B rows, K branches (times rollouts in predictions), N = B x K, S positions with the prefix,
L positions without it, D channels, V tokens of the vocabulary.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from pipeline_lib.params.prr import PrrLossParams, PrrModelParams
from pipeline_lib.systems.prr.model import losses
from pipeline_lib.systems.prr.model.batches import Batch, BranchOutput, Carry, Sizes, StepOutput
from pipeline_lib.systems.prr.model.branches import (
    BranchVectors,
    accumulate_demand,
    communicate,
    communication_steps,
    core_passes,
    first_grad_step,
    reinit_dead_branches,
)
from pipeline_lib.systems.prr.model.layers import (
    Block,
    Blocks,
    InputEmbedding,
    NoiseSource,
    autocast,
    gaussian,
    linear,
    truncated_normal_,
)
from pipeline_lib.systems.prr.model.losses import max_token_logprobs

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


class PrrModel(nn.Module):
    """Parallel latent branches: a question, K answers with scores."""

    def __init__(self, params: PrrModelParams, sizes: Sizes, *, loss: PrrLossParams) -> None:
        super().__init__()
        self.params = params
        self.loss_params = loss
        width = params.width
        self.embedding = InputEmbedding(params, sizes)
        self.core = Blocks(params, positions=params.prefix_tokens + sizes.seq_len)
        self.branches = BranchVectors(params.num_branches, width, every_step=params.branch_vectors)
        self.head = linear(width, sizes.vocab_size)
        self.scorer = Scorer(params, sizes)
        if params.compiled:
            self.core.compile()

    def training_step(
        self,
        batch: Batch,
        *,
        carry: Carry | None,
        progress: float,
        generator: torch.Generator | None,
    ) -> StepOutput:
        """One pass over all steps; ``progress`` is the share of training steps done, in [0, 1].

        With restarts the carry sums the load of each branch (`losses.branch_demand`).
        """
        restart_every = self.loss_params.restart_every if self.params.num_branches > 1 else 0
        if restart_every:
            carry = reinit_dead_branches(
                self.branches, carry, every=restart_every, progress=progress, generator=generator
            )
        with autocast(batch.inputs_BL.device, self.params.precision):
            embedded_BSD = self.embedding(batch)
            start_BKSD = self.branches.initial_latents(embedded_BSD)
            if self.params.start_noise:
                noise_BKSD = gaussian(start_BKSD, generator)
                start_BKSD = start_BKSD + self.params.start_noise * noise_BKSD
            latents_BKSD = self._run_steps(start_BKSD, embedded_BSD, steps=self.params.steps)
            scored_BKSD, question_BSD = latents_BKSD, embedded_BSD
            if self.loss_params.detach_scorer:
                scored_BKSD, question_BSD = latents_BKSD.detach(), embedded_BSD.detach()
            logits_BKLV = self._logits(latents_BKSD)
            scores_BK = self.scorer(scored_BKSD, logits_BKLV, question_BSD)
        loss, parts = losses.total_loss(
            logits_BKLV, scores_BK, latents_BKSD, batch, self.loss_params, progress=progress
        )
        if restart_every:
            demand = losses.branch_demand(logits_BKLV, batch, self.loss_params, progress=progress)
            carry = accumulate_demand(carry, demand)
        return StepOutput(loss=loss, parts=parts, carry=carry)

    @torch.no_grad()
    def predict(
        self,
        batch: Batch,
        *,
        steps: int | None = None,
        noise: float = 0.0,
        rollouts: int = 1,
        generator: NoiseSource = None,
    ) -> BranchOutput:
        """K x rollouts answers per row; rollout r gives branches r K to r K + K - 1.

        Without gradients; deterministic with ``noise`` 0.

        Args:
            batch: the examples.
            steps: of recursion; None: as trained.
            noise: standard deviation of the Gaussian noise that is added to the latents at every step.
            rollouts: runs, each of which gives all K branches.
            generator: of the noise. With one per row a row's answers are independent of the batch, and the answers of
                fewer rollouts are a prefix of the answers of more.
        """
        steps = steps or self.params.steps
        with autocast(batch.inputs_BL.device, self.params.precision):
            embedded_BSD = self.embedding(batch)
            runs = [
                self._run_steps(
                    self.branches.initial_latents(embedded_BSD),
                    embedded_BSD,
                    steps=steps,
                    noise=noise,
                    generator=generator,
                )
                for _ in range(rollouts)
            ]
            latents_BKSD = torch.cat(runs, dim=1)
            logits_BKLV = self._logits(latents_BKSD)
            scores_BK = self.scorer(latents_BKSD, logits_BKLV, embedded_BSD)
        return BranchOutput(
            logits_BKLV=logits_BKLV,
            scores_BK=scores_BK,
            core_passes=rollouts * core_passes(self.params, steps),
        )

    def _run_steps(
        self,
        latents_BKSD: Tensor,
        embedded_BSD: Tensor,
        *,
        steps: int,
        noise: float = 0.0,
        generator: NoiseSource = None,
    ) -> Tensor:
        """Latents after ``steps`` passes of every branch."""
        wants_grad = torch.is_grad_enabled()
        first_grad = first_grad_step(self.params, steps)
        communications = communication_steps(self.params, steps)
        injected_BKSD = self.branches.step_input(embedded_BSD)
        for step in range(steps):
            with torch.set_grad_enabled(wants_grad and step >= first_grad):
                if noise:
                    latents_BKSD = latents_BKSD + noise * gaussian(latents_BKSD, generator)
                folded_NSD = (latents_BKSD + injected_BKSD).flatten(0, 1)
                latents_BKSD = self.core(folded_NSD).unflatten(0, latents_BKSD.shape[:2])
                if step in communications:
                    latents_BKSD = communicate(
                        latents_BKSD,
                        self.scorer(latents_BKSD, self._logits(latents_BKSD), embedded_BSD),
                        alpha=self.params.alpha,
                        temperature=self.params.comm_temperature,
                    )
        return latents_BKSD

    def _logits(self, latents_BKSD: Tensor) -> Tensor:
        logits_BKLV: Tensor = self.head(latents_BKSD[:, :, self.params.prefix_tokens :])
        return logits_BKLV.float()
