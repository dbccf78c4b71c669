"""The paths of one step with their rewards: which of them are trained on, and the metrics of the draw.

A path without a reward, because drawing or verifying it failed, is left out. One that was cut at the
length limit is kept with its verdict: without such paths a policy under a KL penalty or an entropy bonus
learns not to end, since the cost of not ending is never observed.

Axes: P prompts, N paths of a prompt, K parts of a reward (one).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from pipeline_lib.train.advantages.rules import AdvantageRule, compute_advantages
from pipeline_lib.train.online.rewards import share_equal_groups
from pipeline_lib.train.online.rollouts import DrawnPath
from pipeline_lib.train.ppo.path_batch import TokenPath


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPaths:
    """The paths of one draw and their rewards, in the same order; the paths of a prompt are adjacent."""

    paths: Sequence[DrawnPath]
    rewards: Sequence[float | None]
    end_ids: Collection[int]
    group_size: int
    advantage_rule: AdvantageRule | None = None

    def trainable(self) -> list[TokenPath]:
        """The paths with a reward."""
        return [
            TokenPath(
                prompt_ids=path.prompt_ids, completion_ids=path.completion_ids, outcome=outcome
            )
            for path, reward, outcome in zip(
                self.paths, self.rewards, self._outcomes(), strict=True
            )
            if reward is not None and outcome is not None
        ]

    def _outcomes(self) -> Sequence[float | None]:
        """Rewards, or with a rule the group-relative advantages in their place."""
        if self.advantage_rule is None:
            return self.rewards
        rewards = [math.nan if reward is None else reward for reward in self.rewards]
        rewards_PNK = torch.tensor(rewards).view(-1, self.group_size, 1)
        advantages: list[float | None] = (
            compute_advantages(self.advantage_rule, rewards_PNK).flatten().tolist()
        )
        return advantages

    def metrics(self) -> dict[str, float]:
        """Means over all drawn paths, by TRL's names; a mean over nothing is left out."""
        drawn = [path for path in self.paths if not path.failed]
        known = [reward for reward in self.rewards if reward is not None]
        metrics = {"unjudged": 1 - len(known) / len(self.rewards)}
        if known:
            metrics["reward"] = fmean(known)
            metrics["frac_reward_zero_std"] = share_equal_groups(self.rewards, self.group_size)
        if drawn:
            metrics["completions/mean_length"] = fmean(len(path.completion_ids) for path in drawn)
            metrics["completions/clipped_ratio"] = fmean(
                path.completion_ids[-1] not in self.end_ids for path in drawn
            )
        return metrics
