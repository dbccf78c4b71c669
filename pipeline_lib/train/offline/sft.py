"""Supervised fine-tuning by TRL: next-token loss on completions and their end token, not on prompts."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer
from typing_extensions import override

from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.phases import MakeTrainer, Row, count_tokens, order_rows
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.trainer_settings import IGNORED, TrainerSettings, fitting_rows, longest_row
from pipeline_lib.train.weights.adapters import make_lora_config, plain_model
from pipeline_lib.train.weights.policies import Policy

_MAX_LOGITS = 1 << 25
"""Numbers that are stored at most: 128 MiB in float32, and as much again for the gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledScores:
    """The attributes that TRL's losses read of a fused head, [B, K - 1] each; zero without a label."""

    log_probs: torch.Tensor
    """Natural log."""
    entropy: torch.Tensor
    """In nats, without a gradient."""
    is_top1: torch.Tensor
    """True where no other token is more likely."""
    label_mask: torch.Tensor
    aux_loss: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledHead:
    """A model that returns LabelledScores where TRL calls its fused head."""

    model: Any

    def __call__(
        self, *, fused_lm_head: bool = False, labels: torch.Tensor | None = None, **inputs: Any
    ) -> Any:
        """The scores of ``labels`` [B, L]; any other call goes to the model."""
        if not fused_lm_head or labels is None:
            return self.model(**inputs, labels=labels, fused_lm_head=fused_lm_head)
        columns = labels.shape[1]
        kept = columns - _first(labels) + 1
        logits_BKV = self.model(**inputs, logits_to_keep=kept).logits
        return score_labels(logits_BKV[:, :-1], labels[:, columns - kept + 1 :])


def is_small(model: Any, labels: torch.Tensor) -> bool:
    """True if the logits of ``labels`` [B, L] are to be stored: on a CPU, up to a size."""
    plain = plain_model(model)
    vocabulary = plain.config.get_text_config().vocab_size
    return (
        labels.device.type == "cpu"
        and labels.numel() * vocabulary <= _MAX_LOGITS
        and "logits_to_keep" in inspect.signature(plain.forward).parameters
    )


def score_labels(logits_BKV: torch.Tensor, labels_BK: torch.Tensor) -> LabelledScores:
    """Scores of ``labels_BK``, each by the logits at its own index."""
    mask_BK = labels_BK != IGNORED
    log_probs_BKV = logits_BKV.float().log_softmax(-1)
    chosen_BK1 = labels_BK.clamp(min=0)[..., None]
    own_BK = log_probs_BKV.gather(-1, chosen_BK1)[..., 0] * mask_BK
    with torch.no_grad():
        entropy_BK = -(log_probs_BKV.exp() * log_probs_BKV).sum(-1) * mask_BK
        is_top1_BK = (log_probs_BKV.argmax(-1) == labels_BK) & mask_BK
    return LabelledScores(
        log_probs=own_BK, entropy=entropy_BK, is_top1=is_top1_BK, label_mask=mask_BK
    )


def _first(labels: torch.Tensor) -> int:
    """The first labelled column from the second on, since no logits predict the first token."""
    labelled_L = (labels[:, 1:] != IGNORED).any(0)
    return 1 + int(labelled_L.int().argmax())


def trainer_factory(
    rows: Sequence[Row], *, lora: LoraParams, validation: Sequence[Row] = ()
) -> MakeTrainer:
    """A factory of trainers on rows with a rendered ``prompt`` and a ``completion``.

    With ``validation`` rows their loss is computed before the first step and at each checkpoint, and
    training ends with the weights of the checkpoint that has the lowest.
    """

    def make(policy: Policy, settings: TrainerSettings) -> SFTTrainer:
        def tokenize_all(some: Sequence[Row]) -> Dataset:
            return Dataset.from_list([tokenize(row, policy.tokenizer) for row in some])

        evaluation: dict[str, Any] = {}
        if validation:
            rows_at_once = fitting_rows(
                policy.model.config,
                batch_size=_MAX_VALIDATION_ROWS,
                row_tokens=row_tokens(validation)(policy.tokenizer),
            )
            evaluation = {
                **_KEEP_LOWEST_LOSS,
                "eval_steps": settings["save_steps"],
                "per_device_eval_batch_size": rows_at_once,
            }
        return _Trainer(
            model=policy.model,
            args=settings.make(
                SFTConfig, **evaluation, dataset_kwargs={"skip_prepare_dataset": True}
            ),
            train_dataset=order_rows(tokenize_all(rows), settings),
            eval_dataset=tokenize_all(validation) if validation else None,
            processing_class=policy.tokenizer,
            peft_config=make_lora_config(lora),
        )

    return make


_KEEP_LOWEST_LOSS: dict[str, Any] = {
    "eval_strategy": "steps",
    "eval_on_start": True,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_loss",
    "greater_is_better": False,
}
_MAX_VALIDATION_ROWS = 64


def row_tokens(rows: Sequence[Row]) -> Callable[[Any], int]:
    """A function from the tokenizer to the length of the longest row."""
    return lambda tokenizer: longest_row(rows, tokenizer, "completion")


class _Trainer(SFTTrainer):
    """TRL's trainer, which scores only labelled columns where the logits are small."""

    @override
    def compute_loss(self, model: Any, inputs: dict[str, Any], *more: Any, **options: Any) -> Any:
        if not self.aux_loss_enabled and is_small(model, inputs["labels"]):
            model = LabelledHead(model=model)
        return super().compute_loss(  # type: ignore[no-untyped-call]
            model, inputs, *more, **options
        )

    def count_processed_tokens(self) -> Tokens:
        """Tokens of the rows, prompts included."""
        return Tokens(trained=count_tokens(self.train_dataset, "input_ids"))


def tokenize(row: Row, tokenizer: Any) -> dict[str, list[int]]:
    """Token ids of prompt, completion and end token, with labels on the last two.

    The prompt is tokenized separately, as in sampling: a token across the boundary would train a
    context that never occurs there.
    """
    prompt = encode_prompt(tokenizer, row["prompt"])
    completion = [*encode_completion(tokenizer, row["completion"]), tokenizer.eos_token_id]
    return {
        "input_ids": prompt + completion,
        "labels": [IGNORED] * len(prompt) + completion,
    }
