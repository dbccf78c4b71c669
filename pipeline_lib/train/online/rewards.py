"""Rewards of online methods, as functions by TRL's conventions, and the verified one.

The verified reward is the strict verdict on a path as 1 or 0, None without a verdict. It is the reward of a
training unless the request makes others of it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pipeline_lib.kinds.kind import Gold
from pipeline_lib.verify.dispatch import Item, Verifier

RewardFunction = Callable[..., list[float | None]]
"""A reward for each path, None for none. Called once per draw with keywords by TRL's names: ``prompts``,
``completions`` (texts) and ``completion_ids``; the columns of the rows and ``failed``; ``trainer_state``,
whose ``global_step`` counts the optimizer steps before the draw; ``log_metric(name, value)``. Others may
follow.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """The parts of a reward, of which several are standardized within their group before they are added."""

    functions: Sequence[RewardFunction]
    """They are called one after another for each draw. Several are for GRPO alone."""
    weights: Sequence[float]
    held: Callable[[], Sequence[Sequence[int]]] | None = None
    """For GRPO: each function after the first is about a beginning of the path, and of these tokens alone: their numbers
    by path, in the last draw. A function is then standardized alone. None: all are about the path, and added."""

    @property
    def single(self) -> RewardFunction:
        """The only part."""
        [function] = self.functions
        return function


MakeRewards = Callable[[RewardFunction, Verifier], Rewards]
"""From the verified reward and its verifier to the rewards of a training."""


def make_verified_reward(golds: Mapping[str, Gold], verifier: Verifier) -> RewardFunction:
    """A reward function: 1 for a strictly correct path, 0 for a wrong one, None without a verdict.

    None keeps a path out of its group's baseline and gives it no advantage, so a verifier's failure
    trains nothing. ``failed`` marks paths that could not be drawn.
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


def share_equal_groups(rewards: Sequence[float | None], group_size: int) -> float:
    """Share of the groups in which no two rewards differ."""
    groups = [rewards[start : start + group_size] for start in range(0, len(rewards), group_size)]
    known = [[reward for reward in group if reward is not None] for group in groups]
    return fmean(not group or math.isclose(min(group), max(group)) for group in known)
