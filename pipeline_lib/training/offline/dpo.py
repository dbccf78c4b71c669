"""Direct preference optimization by TRL, on pairs of a correct and a wrong path of one problem.

Source: Rafailov et al. 2023 (arXiv:2305.18290). The reference is the policy at the start.
"""

from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from pipeline_lib.params.train import LoraParams
from pipeline_lib.training.memory import longest_row
from pipeline_lib.training.phases import MakeTrainer, Row, count_tokens, order_rows
from pipeline_lib.training.token_budget import Tokens
from pipeline_lib.training.trainer_settings import TrainerSettings
from pipeline_lib.training.weights.adapters import make_lora_config
from pipeline_lib.training.weights.policies import Policy

_COLUMNS = ("prompt", "chosen", "rejected")


def trainer_factory(rows: Sequence[Row], *, beta: float, lora: LoraParams) -> MakeTrainer:
    """A factory of trainers on rows with a rendered ``prompt``, a ``chosen`` and a ``rejected`` completion."""

    def make(policy: Policy, settings: TrainerSettings) -> _Trainer:
        # TRL tokenizes the texts and appends the end token to both completions.
        pairs = Dataset.from_list([{name: row[name] for name in _COLUMNS} for row in rows])
        return _Trainer(
            model=policy.model,
            args=settings.make(DPOConfig, beta=beta, max_length=None),
            train_dataset=order_rows(pairs, settings),
            processing_class=policy.tokenizer,
            peft_config=make_lora_config(lora),
        )

    return make


def pair_tokens(rows: Sequence[Row]) -> Callable[[Any], int]:
    """A function from the tokenizer to the length of the longest pair, both of one length."""
    return lambda tokenizer: (
        2 * max(longest_row(rows, tokenizer, "prompt", column) for column in ("chosen", "rejected"))
    )


class _Trainer(DPOTrainer):
    """TRL's trainer, which counts the tokens of its rows."""

    def count_processed_tokens(self) -> Tokens:
        """Tokens of both completions of every pair, each with its prompt."""
        columns = ("prompt_ids", "prompt_ids", "chosen_ids", "rejected_ids")
        return Tokens(trained=count_tokens(self.train_dataset, *columns))
