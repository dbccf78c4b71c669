"""REINFORCE leave-one-out by TRL: a path's baseline is the mean reward of the others of its group.

A path is one action: the clipped ratio is that of its whole probability, not of each token's.
Source: Ahmadian et al. 2024 (arXiv:2402.14740), after Kool et al. 2019; no KL term.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trl.trainer.rloo_config import RLOOConfig
from trl.trainer.rloo_trainer import RLOOTrainer
from typing_extensions import override

from pipeline_lib.params.train import LoraParams
from pipeline_lib.records import Gold
from pipeline_lib.training.online.rewards import verified_reward
from pipeline_lib.training.online.rollout_settings import Rollouts, drawing_settings, prompts_of
from pipeline_lib.training.online.rollouts import RolloutFunc
from pipeline_lib.training.online.unpadded_logprobs import TightPasses
from pipeline_lib.training.phases import MakeTrainer, Row
from pipeline_lib.training.weights.adapters import lora_config
from pipeline_lib.training.weights.policies import Policy
from pipeline_lib.verification.dispatch import Verifier

_CLIP = 0.2


def trainer_maker(
    rows: Sequence[Row],
    *,
    golds: Mapping[str, Gold],
    verifier: Verifier,
    rollouts: Rollouts,
    lora: LoraParams,
) -> MakeTrainer:
    """The trainer on rows with a ``problem_id`` (a key of ``golds``) and a rendered ``prompt``."""

    def make(policy: Policy, settings: Mapping[str, Any]) -> RLOOTrainer:
        return _Trainer(
            model=policy.model,
            args=RLOOConfig(
                **settings,
                **drawing_settings(rollouts),
                epsilon=_CLIP,
                normalize_advantages=False,
            ),
            train_dataset=prompts_of(rows, settings, group_size=rollouts.group_size),
            processing_class=policy.tokenizer,
            reward_funcs=verified_reward(golds, verifier),
            peft_config=lora_config(lora),
            rollout_func=rollouts.opened_on(policy.source),
        )

    return make


class _Trainer(TightPasses, RLOOTrainer):
    """TRL's trainer in passes without padding, with the ``rollout_func`` that TRL gives to GRPO alone."""

    def __init__(self, *, rollout_func: RolloutFunc, **options: Any) -> None:
        super().__init__(**options)
        self._rollout_func = rollout_func
        self._drawn: dict[str, list[Any]] = {}

    @override
    def _generate(self, prompts: list[str]) -> Any:
        self._drawn = self._rollout_func(prompts, self)
        return super()._generate(prompts)

    @override
    def _generate_single_turn(self, *_: Any) -> Any:
        return self._drawn["completion_ids"]

    @override
    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: Any, completions: Any, completion_ids_list: Any
    ) -> Any:
        nothing_failed = [False] * len(inputs)
        for row, failed in zip(inputs, self._drawn.get("failed", nothing_failed), strict=True):
            row["failed"] = failed
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
