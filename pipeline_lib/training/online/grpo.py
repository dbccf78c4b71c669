"""Group-relative policy optimization by TRL, online: each draw gives new paths and verifies them.

Source: Shao et al. 2024 (arXiv:2402.03300); what became of its loss since, `grpo_variants` lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from typing_extensions import override

from pipeline_lib.params.train import LoraParams, Variant
from pipeline_lib.records import Gold
from pipeline_lib.training.online.grpo_variants import LOSSES
from pipeline_lib.training.online.rewards import verified_reward
from pipeline_lib.training.online.rollout_settings import Rollouts, drawing_settings, prompts_of
from pipeline_lib.training.online.unpadded_logprobs import TightPasses
from pipeline_lib.training.phases import MakeTrainer, Row
from pipeline_lib.training.weights.adapters import lora_config
from pipeline_lib.training.weights.policies import Policy
from pipeline_lib.verification.dispatch import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is minimized."""

    variant: Variant = Variant.DAPO
    entropy_coef: float = 0.0
    """Weight of the mean entropy of a token (nats), which is rewarded."""


def trainer_maker(
    rows: Sequence[Row],
    *,
    golds: Mapping[str, Gold],
    verifier: Verifier,
    rollouts: Rollouts,
    objective: Objective,
    lora: LoraParams,
) -> MakeTrainer:
    """The trainer on rows with a ``problem_id`` (a key of ``golds``) and a rendered ``prompt``."""

    def make(policy: Policy, settings: Mapping[str, Any]) -> GRPOTrainer:
        return _Trainer(
            model=policy.model,
            args=GRPOConfig(
                **settings,
                **drawing_settings(rollouts),
                **LOSSES[objective.variant].settings(),
                entropy_coef=objective.entropy_coef,
            ),
            train_dataset=prompts_of(rows, settings, group_size=rollouts.group_size),
            processing_class=policy.tokenizer,
            reward_funcs=verified_reward(golds, verifier),
            peft_config=lora_config(lora),
            rollout_func=rollouts.opened_on(policy.source),
            drawn_elsewhere=rollouts.elsewhere,
        )

    return make


class _Trainer(TightPasses, GRPOTrainer):
    """TRL's trainer in passes without padding; its ratios are to the policy that drew the paths."""

    def __init__(self, *, drawn_elsewhere: bool, **options: Any) -> None:
        super().__init__(**options)
        self._drawn_elsewhere = drawn_elsewhere

    @override
    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        scored: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self._drawn_elsewhere:
            # TRL would ask this of its own vLLM alone, and take other engines for the trainer.
            scored["old_per_token_logps"] = scored["sampling_per_token_logps"]
        return scored
