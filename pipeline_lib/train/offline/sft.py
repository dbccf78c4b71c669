"""Supervised fine-tuning by TRL: next-token loss on completions and their end token, not on prompts."""

from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer
from typing_extensions import override

from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.memory import fitting_rows, longest_row
from pipeline_lib.train.offline.labelled_scores import IGNORED, LabelledHead, is_small
from pipeline_lib.train.phases import MakeTrainer, Row, count_tokens, order_rows
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy


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
