"""A trainer of transformers whose step draws, scores what it drew, and makes several updates on it.

All of it is one step of the trainer, so that no checkpoint falls between a draw and its last update: draws
need not be saved, and a resumed run computes what an unbroken one does. Subclasses have the step itself.

Only public methods of the trainer are overridden.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import itemgetter
from typing import Any

import torch
from transformers import Trainer, TrainingArguments
from typing_extensions import override

from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.phases import Row, select_prompts
from pipeline_lib.train.token_budget import Tokens, count_reused
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.adapters import attach
from pipeline_lib.train.weights.policies import Policy

Reference = Callable[[Any], AbstractContextManager[Any]]
"""From the policy in training to the policy at the start, for a block in which the first is not used."""


def keep_reference(model: Any, lora: LoraParams, device: torch.device) -> Reference:
    """The reference of a model that is about to be trained: a copy, or the model with its adapters disabled."""
    if not lora.enabled:
        copied = copy.deepcopy(model).to(device).eval()
        return lambda _policy: nullcontext(copied)

    @contextmanager
    def without_adapter(policy: Any) -> Iterator[Any]:
        with policy.disable_adapter():
            yield policy

    return without_adapter


class DrawTrainer(Trainer):
    """A step gets the rows of its prompts; the schedule's batches are what is drawn for them."""

    def __init__(  # noqa: PLR0913 - what both methods differ in
        self,
        policy: Policy,
        settings: TrainerSettings,
        rows: Sequence[Row],
        *,
        group_size: int,
        updates: int,
        lora: LoraParams,
        keeps_reference: bool,
        **options: Any,
    ) -> None:
        """``options`` are arguments of the trainer; ``keeps_reference``: the policy at the start is kept."""
        self._group_size, self._updates = group_size, updates
        self._tokenizer = policy.tokenizer
        self._step_metrics: dict[str, float] = {}
        options |= {
            "per_device_train_batch_size": settings.sequences // group_size,
            "gradient_accumulation_steps": 1,
            "remove_unused_columns": False,
        }
        args = settings.make(TrainingArguments, **options)
        self._reference = (
            keep_reference(policy.model, lora, args.device) if keeps_reference else None
        )
        super().__init__(
            model=attach(policy.model, lora, checkpointing=args.gradient_checkpointing),
            args=args,
            train_dataset=select_prompts(rows, settings, group_size=group_size),
            # Rows as they are: prompts become tensors with what is drawn for them.
            data_collator=itemgetter(slice(None)),
            processing_class=policy.tokenizer,
        )

    def update(self, model: Any) -> None:
        """Update the weights, as the trainer's loop does after the last gradients of a step."""
        assert self.optimizer is not None
        self.accelerator.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        model.zero_grad()

    def count_processed_tokens(self) -> Tokens:
        """Tokens of the draws, prompts included."""
        seen, log = int(self.state.num_input_tokens_seen), self.state.log_history
        return count_reused(seen, passes=self._updates, log=log)

    @override
    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log a step together with its own metrics."""
        super().log({**logs, **self._step_metrics} if "loss" in logs else logs, start_time)
