"""The paths of one step: drawn from the policy, judged, and counted.

A path without reward, because our side failed to draw or to judge it, is not learned from. One that was
cut at the length limit is, with its verdict: where such paths are left out, a policy that pays for
divergence or is paid for entropy learns not to end, since what it pays for that is never seen.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline_lib.training.online.rollouts import DrawnPath
from pipeline_lib.training.ppo.path_batch import TokenPath

Reward = Callable[..., list[float | None]]
"""Called with ``completions`` (texts), ``problem_id`` and ``failed``, each a list; None is no reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPaths:
    """What one draw gave; the lists run side by side, the paths of a problem together."""

    paths: Sequence[DrawnPath]
    rewards: Sequence[float | None]
    end_ids: Collection[int]
    group_size: int

    def counting(self) -> list[TokenPath]:
        """Those that are learned from."""
        return [
            TokenPath(prompt_ids=path.prompt_ids, completion_ids=path.completion_ids, reward=reward)
            for path, reward in zip(self.paths, self.rewards, strict=True)
            if reward is not None
        ]

    def figures(self) -> dict[str, float]:
        """Means over all paths that were drawn, by TRL's names; nothing where there is none."""
        drawn = [path for path in self.paths if not path.failed]
        known = [reward for reward in self.rewards if reward is not None]
        figures = {"unjudged": 1 - len(known) / len(self.rewards)}
        if known:
            figures["reward"] = fmean(known)
            figures["frac_reward_zero_std"] = fmean(self._equal(group) for group in self._groups())
        if drawn:
            figures["completions/mean_length"] = fmean(len(path.completion_ids) for path in drawn)
            figures["completions/clipped_ratio"] = fmean(
                path.completion_ids[-1] not in self.end_ids for path in drawn
            )
        return figures

    def _groups(self) -> list[list[float]]:
        starts = range(0, len(self.rewards), self.group_size)
        groups = [self.rewards[start : start + self.group_size] for start in starts]
        return [[reward for reward in group if reward is not None] for group in groups]

    @staticmethod
    def _equal(rewards: Sequence[float]) -> bool:
        return not rewards or math.isclose(min(rewards), max(rewards))
