"""Supervised fine-tuning by TRL: next-token loss on completions, prompts masked, end token trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer
from typing_extensions import override

from pipeline_lib.params.train import LoraParams
from pipeline_lib.training.adapters import lora_config
from pipeline_lib.training.labelled_scores import IGNORED, LabelledHead, is_small
from pipeline_lib.training.phases import MakeTrainer, Row, ordered
from pipeline_lib.training.policies import Policy


def trainer_maker(rows: Sequence[Row], *, lora: LoraParams) -> MakeTrainer:
    """The trainer on rows with a rendered ``prompt`` and a ``completion``."""

    def make(policy: Policy, settings: Mapping[str, Any]) -> SFTTrainer:
        tokenized = Dataset.from_list([tokenize(row, policy.tokenizer) for row in rows])
        return _Trainer(
            model=policy.model,
            args=SFTConfig(**settings, dataset_kwargs={"skip_prepare_dataset": True}),
            train_dataset=ordered(tokenized, settings),
            processing_class=policy.tokenizer,
            peft_config=lora_config(lora),
        )

    return make


class _Trainer(SFTTrainer):
    """TRL's trainer, which scores labelled columns alone where a table of logits is small."""

    @override
    def compute_loss(self, model: Any, inputs: dict[str, Any], *more: Any, **options: Any) -> Any:
        if not self.aux_loss_enabled and is_small(model, inputs["labels"]):
            model = LabelledHead(model=model)
        return super().compute_loss(  # type: ignore[no-untyped-call]
            model, inputs, *more, **options
        )


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
