"""TRM: a high and a low latent state, refined in deep-supervision steps until a row halts.

The baseline at its published sizes: 6,829,058 parameters with attention (vocabulary 12), 5,028,866
with an MLP mixer over 97 positions (vocabulary 11). A training step is one supervision step of
every row; unfinished rows are carried to the next step, and halted rows are replaced by rows of the
next batch. Rows of a batch without a free slot are skipped.

Source: Jolicoeur-Martineau 2025 (arXiv:2510.04871), figure 3; halting uses the halt logit alone.

Axes: B rows, S positions with the prefix, L positions of the sequence, D channels.
"""

import torch
from torch import Tensor, nn

from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model import losses
from pipeline_lib.systems.prr.model.batches import Batch, BranchOutput, Carry, Sizes, StepOutput
from pipeline_lib.systems.prr.model.layers import (
    Blocks,
    InputEmbedding,
    NoiseSource,
    autocast,
    compute_dtype,
    gaussian,
    linear,
    truncated_normal_,
)

_HALT_WEIGHT = 0.5
_HALT_BIAS = -5.0
"""Initially no row halts early."""
_LEAST_EXPLORED = 2
"""Lower bound of the random minimum number of supervision steps under exploration."""


LatentState = tuple[Tensor, Tensor]
"""The state of the recursion, each [B, S, D]: high, the current answer and input of the output head, and low."""


class TrmModel(nn.Module):
    """Tiny recursive model, with the methods of `PrrModel`."""

    def __init__(self, params: PrrModelParams, sizes: Sizes) -> None:
        super().__init__()
        self.params = params
        width = params.width
        self.embedding = InputEmbedding(params, sizes)
        self.core = Blocks(params, positions=params.prefix_tokens + sizes.seq_len)
        self.head = linear(width, sizes.vocab_size)
        # The second output (continue) is unused; it is kept for the published parameter count.
        self.halt = nn.Linear(width, 2)
        nn.init.zeros_(self.halt.weight)
        nn.init.constant_(self.halt.bias, _HALT_BIAS)
        for name in ("high_start_D", "low_start_D"):
            self.register_buffer(name, truncated_normal_(torch.empty(width), std=1.0))
        if params.compiled:
            self.core.compile()

    def training_step(
        self,
        batch: Batch,
        *,
        carry: Carry | None,
        progress: float,  # noqa: ARG002 - as for PRR; TRM has no schedule
        generator: torch.Generator | None,
    ) -> StepOutput:
        """One supervision step on the carried rows; halted ones are replaced from ``batch``."""
        current, thought, steps_B = self._admit_rows(batch, carry)
        with autocast(batch.inputs_BL.device, self.params.precision):
            thought = self._deep_recursion(thought, self.embedding(current))
            logits_B1LV, halt_B1 = self._read(thought)
        losses_B1 = losses.branch_losses(logits_B1LV, current.labels_BL)
        exact_B1 = losses.exact_match(logits_B1LV.detach(), current.labels_BL)
        terms = {
            "best_of": losses_B1[:, 0],
            "correctness": losses.correctness_loss(halt_B1, exact_B1),
        }
        means = {
            name: losses.mean_over_real(term_B, current.real_B) for name, term_B in terms.items()
        }
        loss = means["best_of"] + _HALT_WEIGHT * means["correctness"]
        steps_B = steps_B + 1
        halted_B = self._halting_mask(halt_B1.detach()[:, 0], steps_B, generator) | ~current.real_B
        shown = {
            "oracle_exact": losses.mean_over_real(exact_B1[:, 0].float(), current.real_B),
            "halted": losses.mean_over_real(halted_B.float(), current.real_B),
            "supervision_steps": losses.mean_over_real(steps_B.float(), current.real_B),
            "loss": loss,
        }
        return StepOutput(
            loss=loss,
            parts={name: part.detach() for name, part in (means | shown).items()},
            carry={
                **current.parts(),
                "high_BSD": thought[0].detach(),
                "low_BSD": thought[1].detach(),
                "steps_B": steps_B,
                "halted_B": halted_B,
            },
        )

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
        """One answer per rollout, after ``steps`` (default ``max_steps``) supervision steps; else as for PRR."""
        steps = steps or self.params.trm.max_steps
        with autocast(batch.inputs_BL.device, self.params.precision):
            embedded_BSD = self.embedding(batch)
            read = []
            for _ in range(rollouts):
                thought = self._initial_state(embedded_BSD)
                for _ in range(steps):
                    if noise:
                        high_BSD, low_BSD = thought
                        noisy_BSD = high_BSD + noise * gaussian(high_BSD, generator)
                        thought = noisy_BSD, low_BSD + noise * gaussian(low_BSD, generator)
                    thought = self._deep_recursion(thought, embedded_BSD)
                read.append(self._read(thought))
        trm = self.params.trm
        return BranchOutput(
            logits_BKLV=torch.cat([logits_B1LV for logits_B1LV, _ in read], dim=1),
            scores_BK=torch.cat([halt_B1 for _, halt_B1 in read], dim=1),
            core_passes=rollouts * steps * trm.high_cycles * (trm.low_cycles + 1),
        )

    def _initial_state(self, like_BSD: Tensor) -> LatentState:
        high_BSD, low_BSD = (
            self.get_buffer(name).to(like_BSD.dtype).expand_as(like_BSD)
            for name in ("high_start_D", "low_start_D")
        )
        return high_BSD, low_BSD

    def _deep_recursion(self, thought: LatentState, embedded_BSD: Tensor) -> LatentState:
        """All high cycles; only the last one has gradients."""
        high_BSD, low_BSD = thought
        wants_grad = torch.is_grad_enabled()
        cycles = self.params.trm.high_cycles
        for cycle in range(cycles):
            with torch.set_grad_enabled(wants_grad and cycle == cycles - 1):
                for _ in range(self.params.trm.low_cycles):
                    low_BSD = self.core(low_BSD + high_BSD + embedded_BSD)
                high_BSD = self.core(high_BSD + low_BSD)
        return high_BSD, low_BSD

    def _read(self, thought: LatentState) -> tuple[Tensor, Tensor]:
        """Logits [B, 1, L, V] and the halting score [B, 1]."""
        high_BSD, _ = thought
        logits_BLV: Tensor = self.head(high_BSD[:, self.params.prefix_tokens :])
        halt_B2: Tensor = self.halt(high_BSD[:, 0])
        return logits_BLV.float()[:, None], halt_B2.float()[:, :1]

    def _admit_rows(self, batch: Batch, carry: Carry | None) -> tuple[Batch, LatentState, Tensor]:
        """Carried rows, with halted ones replaced by rows of ``batch`` in the initial state."""
        positions = self.params.prefix_tokens + batch.inputs_BL.shape[1]
        dtype = compute_dtype(batch.inputs_BL.device, self.params.precision)
        shape = (len(batch.real_B), positions, self.params.width)
        fresh = self._initial_state(torch.empty(shape, dtype=dtype, device=batch.inputs_BL.device))
        if carry is None:
            return batch, fresh, torch.zeros_like(batch.puzzle_ids_B)
        halted_B = carry["halted_B"]

        def renewed(new: Tensor, name: str) -> Tensor:
            return torch.where(halted_B.view(-1, *[1] * (new.ndim - 1)), new, carry[name])

        current = Batch(**{name: renewed(part, name) for name, part in batch.parts().items()})
        thought = renewed(fresh[0], "high_BSD"), renewed(fresh[1], "low_BSD")
        return current, thought, torch.where(halted_B, 0, carry["steps_B"])

    def _halting_mask(
        self, halt_B: Tensor, steps_B: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Rows with a positive halt logit or all steps done; exploration delays halting."""
        most = self.params.trm.max_steps
        if most == 1:
            return torch.ones_like(steps_B, dtype=torch.bool)
        device = steps_B.device if generator is None else generator.device
        drawn_2B = torch.rand((2, len(steps_B)), generator=generator, device=device).to(
            steps_B.device
        )
        least_B = _LEAST_EXPLORED + (drawn_2B[1] * (most + 1 - _LEAST_EXPLORED)).long()
        explores_B = drawn_2B[0] < self.params.trm.exploration
        wants_B = (halt_B > 0) & ~(explores_B & (steps_B < least_B))
        return wants_B | (steps_B >= most)
