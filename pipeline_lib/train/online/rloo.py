"""REINFORCE leave-one-out by TRL: the baseline of a path is the mean reward of the others of its group.

A path is one action: the clipped ratio is that of its whole probability, not of each token's.
Source: Ahmadian et al. 2024 (arXiv:2402.14740), after Kool et al. 2019; without a KL term.
"""

from collections.abc import Sequence

from trl.trainer.rloo_config import RLOOConfig

from pipeline_lib.params.train import LoraParams
from pipeline_lib.train.advantages.rules import find_rule
from pipeline_lib.train.online.rewards import RewardFunction
from pipeline_lib.train.online.rollout_settings import RolloutSettings, select_prompts, trl_settings
from pipeline_lib.train.online.trl_internals import VerifiedRlooTrainer
from pipeline_lib.train.phases import MakeTrainer, Row
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import Policy

_CLIP = 0.2


def trainer_factory(
    rows: Sequence[Row],
    *,
    reward: RewardFunction,
    rollouts: RolloutSettings,
    advantage: str | None = None,
    lora: LoraParams,
) -> MakeTrainer:
    """A factory of trainers on rows with a ``problem_id`` and a rendered ``prompt``.

    ``advantage`` is a name in `advantages.rules.RULES`; None takes leave-one-out.

    Raises:
        BadInputError: there is no advantage rule of that name.
    """
    rule = find_rule(advantage or "rloo")

    def make(policy: Policy, settings: TrainerSettings) -> VerifiedRlooTrainer:
        return VerifiedRlooTrainer(
            model=policy.model,
            args=settings.make(RLOOConfig, **trl_settings(rollouts), epsilon=_CLIP),
            train_dataset=select_prompts(rows, settings, group_size=rollouts.group_size),
            processing_class=policy.tokenizer,
            reward_funcs=reward,
            peft_config=make_lora_config(lora),
            rollout_func=rollouts.make_rollouts(policy.source),
            advantage_rule=rule,
        )

    return make
