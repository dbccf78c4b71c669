"""Supervised fine-tuning by TRL: next-token loss on completions, prompts masked, end token trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer
from typing_extensions import override

from pipeline_lib.params.train import LoraParams
from pipeline_lib.training.offline.labelled_scores import IGNORED, LabelledHead, is_small
from pipeline_lib.training.phases import MakeTrainer, Row, ordered, total_length
from pipeline_lib.training.token_budget import Tokens
from pipeline_lib.training.weights.adapters import lora_config
from pipeline_lib.training.weights.policies import Policy


def trainer_factory(
    rows: Sequence[Row], *, lora: LoraParams, validation: Sequence[Row] = ()
) -> MakeTrainer:
    """The trainer on rows with a rendered ``prompt`` and a ``completion``.

    With ``validation`` rows the loss on them is taken before the first step and at each checkpoint,
    and training ends on the weights of the checkpoint where it was lowest.
    """

    def make(policy: Policy, settings: Mapping[str, Any]) -> SFTTrainer:
        def tokenized(some: Sequence[Row]) -> Dataset:
            return Dataset.from_list([tokenize(row, policy.tokenizer) for row in some])

        kept = _LOWEST_LOSS | {"eval_steps": settings["save_steps"]} if validation else {}
        return _Trainer(
            model=policy.model,
            args=SFTConfig(**settings, **kept, dataset_kwargs={"skip_prepare_dataset": True}),
            train_dataset=ordered(tokenized(rows), settings),
            eval_dataset=tokenized(validation) if validation else None,
            processing_class=policy.tokenizer,
            peft_config=lora_config(lora),
        )

    return make


_LOWEST_LOSS: dict[str, Any] = {
    "eval_strategy": "steps",
    "eval_on_start": True,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_loss",
    "greater_is_better": False,
    "per_device_eval_batch_size": 64,
}


class _Trainer(SFTTrainer):
    """TRL's trainer, which scores labelled columns alone where a table of logits is small."""

    @override
    def compute_loss(self, model: Any, inputs: dict[str, Any], *more: Any, **options: Any) -> Any:
        if not self.aux_loss_enabled and is_small(model, inputs["labels"]):
            model = LabelledHead(model=model)
        return super().compute_loss(  # type: ignore[no-untyped-call]
            model, inputs, *more, **options
        )

    def tokens_read(self) -> Tokens:
        """Tokens of the rows, prompts included."""
        return Tokens(trained=total_length(self.train_dataset, "input_ids"))


def tokenize(row: Row, tokenizer: Any) -> dict[str, list[int]]:
    """Token ids of prompt, completion and end token, with labels on the last two.

    The prompt is tokenized by itself, as in sampling: a token that spans the boundary would make
    the model learn a context that it never sees.
    """
    prompt = tokenizer.encode(row["prompt"], add_special_tokens=False)
    completion = tokenizer.encode(row["completion"], add_special_tokens=False)
    completion = [*completion, tokenizer.eos_token_id]
    return {
        "input_ids": prompt + completion,
        "labels": [IGNORED] * len(prompt) + completion,
    }
