"""Direct preference optimization by TRL, on pairs of a correct and a wrong path of one problem.

Source: Rafailov et al. 2023 (arXiv:2305.18290). The reference is the policy at the start.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset
from trl.trainer.dpo_config import DPOConfig

from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.online.trl_internals import TokenizedDpoTrainer
from pipeline_lib.train.phases import MakeTrainer, Row, order_rows
from pipeline_lib.train.trainer_settings import TrainerSettings, longest_row
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy


def trainer_factory(rows: Sequence[Row], *, beta: float, lora: LoraParams) -> MakeTrainer:
    """A factory of trainers on rows with a rendered ``prompt``, a ``chosen`` and a ``rejected`` completion."""

    def make(policy: Policy, settings: TrainerSettings) -> TokenizedDpoTrainer:
        pairs = Dataset.from_list([tokenize_pair(row, policy.tokenizer) for row in rows])
        return TokenizedDpoTrainer(
            model=policy.model,
            # TRL would read it again, and spread it over all visible GPUs.
            ref_model=None if lora.enabled else copy.deepcopy(policy.model),
            args=settings.make(DPOConfig, beta=beta, max_length=None),
            train_dataset=order_rows(pairs, settings),
            processing_class=policy.tokenizer,
            peft_config=make_lora_config(lora),
        )

    return make


def pair_tokens(rows: Sequence[Row]) -> Callable[[Any], int]:
    """A function from the tokenizer to the length of the longest pair, both of one length."""
    return lambda tokenizer: (
        2 * max(longest_row(rows, tokenizer, column) for column in ("chosen", "rejected"))
    )


def tokenize_pair(row: Row, tokenizer: Any) -> dict[str, list[int]]:
    """Token ids of the prompt, and of both completions with an end token, as in SFT and in sampling."""
    ends = [tokenizer.eos_token_id]
    return {
        "prompt_ids": encode_prompt(tokenizer, row["prompt"]),
        "chosen_ids": encode_completion(tokenizer, row["chosen"]) + ends,
        "rejected_ids": encode_completion(tokenizer, row["rejected"]) + ends,
    }
