"""Group-relative policy optimization by TRL, online: each rollout batch is sampled and verified.

Source: Shao et al. 2024 (arXiv:2402.03300); `grpo_variants` lists the losses that followed it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from trl.trainer.grpo_config import GRPOConfig

from pipeline_lib.params.train import LoraParams, Variant
from pipeline_lib.train.advantages.gdpo import gdpo
from pipeline_lib.train.advantages.rules import find_rule
from pipeline_lib.train.online.grpo_variants import LOSSES
from pipeline_lib.train.online.rewards import Rewards
from pipeline_lib.train.online.rollout_settings import RolloutSettings, select_prompts, trl_settings
from pipeline_lib.train.online.trl_internals import VerifiedGrpoTrainer
from pipeline_lib.train.phases import MakeTrainer, Row
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The objective that GRPO maximizes."""

    variant: Variant = Variant.DAPO
    advantage: str | None = None
    """A name in `advantages.rules.RULES`; None takes the rule of the variant."""
    entropy_coef: float = 0.0
    """Weight of the bonus for the mean entropy of a token, in nats."""


def trainer_factory(
    rows: Sequence[Row],
    *,
    rewards: Rewards,
    rollouts: RolloutSettings,
    objective: Objective,
    lora: LoraParams,
) -> MakeTrainer:
    """A factory of trainers on rows with a ``problem_id`` and a rendered ``prompt``.

    Several rewards take GDPO with their weights, whatever the rule of the variant is.

    Raises:
        BadInputError: there is no advantage rule of that name.
    """
    loss = LOSSES[objective.variant]
    rule = find_rule(objective.advantage or loss.advantage)
    if len(rewards.functions) > 1:
        rule = partial(gdpo, weights_K=rewards.weights)

    def make(policy: Policy, settings: TrainerSettings) -> VerifiedGrpoTrainer:
        return VerifiedGrpoTrainer(
            model=policy.model,
            args=settings.make(
                GRPOConfig,
                **trl_settings(rollouts),
                **loss.settings(),
                entropy_coef=objective.entropy_coef,
                reward_weights=list(rewards.weights),
            ),
            train_dataset=select_prompts(rows, settings, group_size=rollouts.group_size),
            processing_class=policy.tokenizer,
            reward_funcs=list(rewards.functions),
            peft_config=make_lora_config(lora),
            rollout_func=rollouts.make_rollouts(policy.source),
            advantage_rule=rule,
            use_sampling_logprobs=rollouts.use_sampling_logprobs,
        )

    return make
