"""GRPO over rollouts as a trainer of transformers: its loop, checkpoints and log, with a step of its own.

A step draws rollouts, scores their sequences once with the start of training, and makes ``updates`` updates on
all of them.

The probabilities of the drawing policy come from the first update's own passes, since no weight has moved
by then. So a ratio is exactly 1 there, in any precision, which the engine's log-probabilities, of other
batches, would not give. No pass has dropout, for the same reason.

Weights and sums are float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer
from typing_extensions import override

from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.bfloat16_products import bfloat16_products
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.offline.bucketed_sft import make_optimizer
from pipeline_lib.train.online.draw_trainer import DrawTrainer
from pipeline_lib.train.phases import MakeTrainer, Row
from pipeline_lib.train.ppo.losses import TokenMeans, clip_indicators, k3_kl
from pipeline_lib.train.rollout_grpo.losses import sequence_losses
from pipeline_lib.train.rollout_grpo.rollouts import (
    RewardedRollout,
    RolloutSource,
    SequenceBatch,
    draw_metrics,
    make_batches,
    weigh_sequences,
)
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.policies import FULL, Policy


def trainer_factory(
    rows: Sequence[Row],
    rl: AprRlParams,
    lora: LoraParams = FULL,
    *,
    source: RolloutSource,
    kl_coef: float,
) -> MakeTrainer:
    """A factory of trainers on rows with a ``problem_id`` and a ``prompt``; ``kl_coef`` for this kind of model.

    The schedule's batches are rollouts, in one micro-batch.
    """

    def make(policy: Policy, settings: TrainerSettings) -> Trainer:
        weighed = rl.model_copy(update={"kl_coef": kl_coef})
        return RolloutTrainer(policy, settings, rows, weighed, source, lora)

    return make


@dataclass(slots=True, kw_only=True)
class _Pass:
    """A batch with the constants of its loss."""

    batch: SequenceBatch
    reference_BT: Tensor
    """Log-probabilities at the start of training."""
    old_BT: Tensor | None = None
    """Log-probabilities of the drawing policy, once the first update has computed them."""


class RolloutTrainer(DrawTrainer):
    """Draws, scores and updates in each step; see the module's docstring."""

    def __init__(
        self,
        policy: Policy,
        settings: TrainerSettings,
        rows: Sequence[Row],
        rl: AprRlParams,
        source: RolloutSource,
        lora: LoraParams = FULL,
    ) -> None:
        self._rl, self._source = rl, source
        super().__init__(
            policy,
            settings,
            rows,
            group_size=rl.group_size,
            updates=rl.updates,
            lora=lora,
            keeps_reference=True,
            bf16=False,
        )

    @override
    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """One step except its last weight update, which the trainer's loop makes."""
        del num_items_in_batch  # It counts labels, of which there are none.
        plain = self.accelerator.unwrap_model(model)
        rollouts = self._draw(plain, inputs)
        self._step_metrics = draw_metrics(rollouts, group_size=self._group_size)
        sequences = weigh_sequences(rollouts, group_size=self._group_size)
        total = torch.zeros((), device=self.args.device)
        if not sequences:
            # Without gradients the update that follows changes nothing.
            return total
        batches = make_batches(
            sequences,
            pass_tokens=self._rl.pass_tokens,
            pad_id=self._tokenizer.pad_token_id,
            device=self.args.device,
        )
        devices = present_devices()
        plain.eval()
        passes = self._score(plain, devices.share(batches))
        means = TokenMeans()
        for update in range(self._updates):
            if update:
                self.update(model)
            total += self._add_gradients(plain, passes, len(sequences), means)
            # Not by the wrapper of processes, whose forward pass is not called.
            devices.sum_gradients(plain.parameters())
        self._step_metrics |= means.means()
        # The trainer logs the mean over processes.
        return total * devices.world / self._updates

    def _draw(self, plain: Any, rows: Sequence[Row]) -> list[RewardedRollout]:
        """A group of new rollouts for each row of all processes, each of which draws for its own."""
        drawn = self._source.draw(
            [row["prompt"] for row in rows for _ in range(self._group_size)],
            model=plain,
            tokenizer=self._tokenizer,
            step=self.state.global_step,
        )
        rollouts = present_devices().gather(drawn)
        self.state.num_input_tokens_seen += sum(
            len(row.ids_L) for rollout in rollouts for row in rollout.sequences
        )
        return rollouts

    @torch.no_grad()
    def _score(self, plain: Any, batches: Sequence[SequenceBatch]) -> list[_Pass]:
        """The passes, with log-probabilities at the start of training."""
        assert self._reference is not None
        with self._reference(plain) as reference:
            return [
                _Pass(batch=batch, reference_BT=self._logprobs(reference, batch))
                for batch in batches
            ]

    def _logprobs(self, model: Any, batch: SequenceBatch) -> Tensor:
        with bfloat16_products(model, enabled=self._rl.precision == "bfloat16"):
            return batch.logprobs(model)

    def _add_gradients(
        self, plain: Any, passes: Sequence[_Pass], count: int, means: TokenMeans
    ) -> Tensor:
        """Add the gradients of the mean loss of ``count`` sequences; that loss."""
        total = torch.zeros((), device=self.args.device)
        for one in passes:
            loss = self._summed_loss(plain, one, means) / count
            self.accelerator.backward(loss)
            total += loss.detach()
        return total

    def _summed_loss(self, plain: Any, one: _Pass, means: TokenMeans) -> Tensor:
        batch, clip = one.batch, self._rl.clip
        mask_BT, logprobs_BT = batch.mask, self._logprobs(plain, batch)
        if one.old_BT is None:
            one.old_BT = logprobs_BT.detach()
        means.add(
            mask_BT,
            kl=k3_kl(logprobs_BT, one.reference_BT),
            update_kl=k3_kl(one.old_BT, logprobs_BT),
            clip_fraction=clip_indicators(logprobs_BT, one.old_BT, clip=clip),
        )
        return sequence_losses(
            logprobs_BT,
            one.old_BT,
            one.reference_BT,
            mask_BT=mask_BT,
            advantages_B=batch.advantages_B,
            siblings_B=batch.siblings_B,
            clip=clip,
            kl_coef=self._rl.kl_coef,
        ).sum()

    @override
    def create_optimizer(self, model: Any = None) -> Any:
        """AdamW, without weight decay."""
        if self.optimizer is None:
            self.optimizer = make_optimizer(self.model, lr=self.args.learning_rate, muon_lr=None)
        return self.optimizer
