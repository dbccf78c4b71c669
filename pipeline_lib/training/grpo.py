"""Group-relative policy optimization by TRL, online: each step draws new paths and verifies them.

Source: Shao et al. 2024 (arXiv:2402.03300) with the token-level loss and the higher upper clip of
DAPO (Yu et al. 2025, arXiv:2503.14476) and unscaled advantages (Liu et al. 2025, arXiv:2503.20783).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from pipeline_lib.params import LoraParams
from pipeline_lib.records import Gold
from pipeline_lib.training.adapters import lora_config
from pipeline_lib.training.phases import MakeTrainer, Row, ordered
from pipeline_lib.training.policies import Policy
from pipeline_lib.verification.dispatch import Item, Verifier

_CLIP_LOW = 0.2
_CLIP_HIGH = 0.28
_COLUMNS = ("prompt", "problem_id")


RolloutFunc = Callable[[Sequence[str], Any], dict[str, list[Any]]]
"""What TRL calls with the prompts of a step and the trainer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """How a step draws its paths."""

    group_size: int
    max_new_tokens: int
    entropy_coef: float
    opened_on: Callable[[str], RolloutFunc] | None = None
    """Starts what draws the paths, on the policy of a folder; None leaves it to TRL."""


def trainer_maker(
    rows: Sequence[Row],
    *,
    golds: Mapping[str, Gold],
    verifier: Verifier,
    rollouts: Rollouts,
    lora: LoraParams,
) -> MakeTrainer:
    """The trainer on rows with a ``problem_id`` (a key of ``golds``) and a rendered ``prompt``."""

    def make(policy: Policy, settings: Mapping[str, Any]) -> GRPOTrainer:
        problems = Dataset.from_list([{name: row[name] for name in _COLUMNS} for row in rows])
        return GRPOTrainer(
            model=policy.model,
            args=_config(settings, rollouts),
            train_dataset=ordered(problems, settings, sequences_per_row=rollouts.group_size),
            processing_class=policy.tokenizer,
            reward_funcs=verified_reward(golds, verifier),
            peft_config=lora_config(lora),
            rollout_func=rollouts.opened_on(policy.source) if rollouts.opened_on else None,
        )

    return make


def _config(settings: Mapping[str, Any], rollouts: Rollouts) -> GRPOConfig:
    return GRPOConfig(
        **settings,
        num_generations=rollouts.group_size,
        max_completion_length=rollouts.max_new_tokens,
        temperature=1.0,
        # TRL's default of 0 means no cut, but a model's own generation config may bring one.
        top_k=0,
        top_p=1.0,
        shuffle_dataset=False,
        loss_type="dapo",
        scale_rewards="none",
        beta=0.0,
        epsilon=_CLIP_LOW,
        epsilon_high=_CLIP_HIGH,
        mask_truncated_completions=True,
        entropy_coef=rollouts.entropy_coef,
    )


def verified_reward(
    golds: Mapping[str, Gold], verifier: Verifier
) -> Callable[..., list[float | None]]:
    """The reward: 1 for a path that is strictly right, 0 for one that is not, None where we failed.

    TRL leaves a path without a reward out of its group, so our failure teaches nothing. ``failed`` is
    what `rollouts` says of paths that it could not draw.
    """

    def verified(
        *,
        completions: Sequence[str],
        problem_id: Sequence[str],
        failed: Sequence[bool] | None = None,
        **_: Any,
    ) -> list[float | None]:
        items = [
            Item(gold=golds[name], text=text)
            for name, text in zip(problem_id, completions, strict=True)
        ]
        lost = failed or [False] * len(items)
        return [
            None if gone or verdict.strict is None else float(verdict.strict)
            for gone, verdict in zip(lost, verifier.judge(items), strict=True)
        ]

    return verified
