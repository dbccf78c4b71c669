"""Supervised fine-tuning by TRL: next-token loss on completions, prompts masked, end token trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from pipeline_lib.params import LoraParams
from pipeline_lib.training.adapters import lora_config
from pipeline_lib.training.phases import MakeTrainer, Row, ordered
from pipeline_lib.training.policies import Policy

_IGNORED = -100
"""The label of a token that carries no loss."""


def trainer_maker(rows: Sequence[Row], *, lora: LoraParams) -> MakeTrainer:
    """The trainer on rows with a rendered ``prompt`` and a ``completion``."""

    def make(policy: Policy, settings: Mapping[str, Any]) -> SFTTrainer:
        tokenized = Dataset.from_list([tokenize(row, policy.tokenizer) for row in rows])
        return SFTTrainer(
            model=policy.model,
            args=SFTConfig(**settings, dataset_kwargs={"skip_prepare_dataset": True}),
            train_dataset=ordered(tokenized, settings),
            processing_class=policy.tokenizer,
            peft_config=lora_config(lora),
        )

    return make


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
        "labels": [_IGNORED] * len(prompt) + completion,
    }
