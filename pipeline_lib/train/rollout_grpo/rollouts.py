"""Rollouts of one draw with their rewards: which sequences are trained on, and the metrics of the draw.

A rollout without a reward has failed: it is in no baseline, and none of its sequences is trained on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

import torch

from pipeline_lib.train.offline.token_steps import TokenRow
from pipeline_lib.train.rollout_grpo.losses import group_advantages
from pipeline_lib.train.rollout_grpo.sequences import RolloutSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardedRollout:
    """A rollout of one prompt."""

    sequences: Sequence[TokenRow]
    """Each with at least one drawn token, at which its loss begins."""
    reward: float | None
    """None: it failed."""
    counts: Mapping[str, float]
    """For the log, by name; the same names in all rollouts with a reward."""


class RolloutSource(Protocol):
    """Draws the rollouts of a step."""

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[RewardedRollout]:
        """One rollout for each prompt, in order; the prompts of a group are adjacent.

        Args:
            prompts: without a begin token.
            model: the policy with its present weights.
            tokenizer: of the policy.
            step: steps so far; the same step draws the same rollouts.
        """
        ...


def weigh_sequences(
    rollouts: Sequence[RewardedRollout], *, group_size: int
) -> list[RolloutSequence]:
    """The sequences of all rollouts with a reward, with the advantages of their groups."""
    rewards = [math.nan if one.reward is None else one.reward for one in rollouts]
    rewards_PN = torch.tensor(rewards, dtype=torch.float64).view(-1, group_size)
    advantages = group_advantages(rewards_PN).flatten().tolist()
    return [
        RolloutSequence(row=row, advantage=advantage, siblings=len(rollout.sequences))
        for rollout, advantage in zip(rollouts, advantages, strict=True)
        if rollout.reward is not None
        for row in rollout.sequences
    ]


def draw_metrics(rollouts: Sequence[RewardedRollout], *, group_size: int) -> dict[str, float]:
    """Means over the rollouts with a reward, by the names of `phases.METRICS`; none without such rollouts."""
    known = [one for one in rollouts if one.reward is not None]
    metrics = {"unjudged": 1 - len(known) / len(rollouts)}
    if known:
        metrics["reward"] = fmean(one.reward for one in known if one.reward is not None)
        metrics["frac_reward_zero_std"] = _equal_groups(rollouts, group_size)
        for name in known[0].counts:
            metrics[f"rollouts/{name}"] = fmean(one.counts[name] for one in known)
    return metrics


def _equal_groups(rollouts: Sequence[RewardedRollout], group_size: int) -> float:
    """Share of groups in which no two rewards differ."""
    starts = range(0, len(rollouts), group_size)
    groups = [rollouts[start : start + group_size] for start in starts]
    return fmean(len({one.reward for one in group} - {None}) <= 1 for group in groups)
