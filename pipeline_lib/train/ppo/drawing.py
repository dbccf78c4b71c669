"""The paths of one step with their rewards: which of them are trained on, and the metrics of the draw.

A path without a reward, because drawing or verifying it failed, is left out. One that was cut at the
length limit is kept with its verdict: without such paths a policy under a KL penalty or an entropy bonus
learns not to end, since the cost of not ending is never observed.

Axes: P prompts, N paths of a prompt, K parts of a reward (one).
"""

import math
from collections.abc import Collection, Sequence
from statistics import fmean

import torch

from pipeline_lib.train.advantages.rules import AdvantageRule, compute_advantages
from pipeline_lib.train.online.rewards import share_equal_groups
from pipeline_lib.train.online.rollouts import DrawnPath
from pipeline_lib.train.ppo.path_batch import TokenPath


def select_trainable(
    paths: Sequence[DrawnPath],
    rewards: Sequence[float | None],
    *,
    rule: AdvantageRule | None,
    group_size: int,
) -> list[TokenPath]:
    """The paths with a reward, which a rule replaces by the group-relative advantage; groups are adjacent."""
    outcomes = rewards
    if rule is not None:
        known = [math.nan if reward is None else reward for reward in rewards]
        rewards_PNK = torch.tensor(known).view(-1, group_size, 1)
        outcomes = compute_advantages(rule, rewards_PNK).flatten().tolist()
    return [
        TokenPath(prompt_ids=path.prompt_ids, completion_ids=path.completion_ids, outcome=outcome)
        for path, reward, outcome in zip(paths, rewards, outcomes, strict=True)
        if reward is not None and outcome is not None
    ]


def draw_metrics(
    paths: Sequence[DrawnPath],
    rewards: Sequence[float | None],
    *,
    end_ids: Collection[int],
    group_size: int,
) -> dict[str, float]:
    """Means over all drawn paths, by TRL's names; a mean over nothing is left out."""
    drawn = [path for path in paths if not path.failed]
    known = [reward for reward in rewards if reward is not None]
    metrics = {"unjudged": 1 - len(known) / len(rewards)}
    if known:
        metrics["reward"] = fmean(known)
        metrics["frac_reward_zero_std"] = share_equal_groups(rewards, group_size)
    if drawn:
        metrics["completions/mean_length"] = fmean(len(path.completion_ids) for path in drawn)
        metrics["completions/clipped_ratio"] = fmean(
            path.completion_ids[-1] not in end_ids for path in drawn
        )
    return metrics
