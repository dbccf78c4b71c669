"""Rollouts of one draw with their rewards: which sequences are trained on, and the metrics of the draw.

A rollout without a reward has failed: it is in no baseline, and none of its sequences is trained on. The
others' sequences become passes of similar lengths, padded at the end, where no token attends to padding, so
there is no mask. Prefixes of 20 and of 200 tokens occur side by side, so they are not aligned.

Axes: B sequences of a pass, L tokens, T = L - 1 predicted tokens, N predicted tokens with a loss.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Protocol

import torch
from torch import Tensor

from pipeline_lib.train.offline.bucketed_sft import TokenRow, cut_passes, pad, token_losses
from pipeline_lib.train.online.rewards import share_equal_groups
from pipeline_lib.train.rollout_grpo.losses import group_advantages
from pipeline_lib.train.trainer_settings import IGNORED


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
        """One rollout for each prompt, in order, from the present weights; the prompts of a group are adjacent.

        Prompts have no begin token. The same ``step`` draws the same rollouts.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSequence:
    """A drawn sequence, and what it takes from its rollout."""

    row: TokenRow
    """Prefix and drawn tokens; the loss begins at the first drawn one."""
    advantage: float
    siblings: int
    """Sequences of the rollout, this one included."""


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
        metrics["frac_reward_zero_std"] = share_equal_groups(
            [one.reward for one in rollouts], group_size
        )
        for name in known[0].counts:
            metrics[f"rollouts/{name}"] = fmean(one.counts[name] for one in known)
    return metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBatch:
    """Sequences that go through the model together."""

    ids_BL: Tensor
    labels_BL: Tensor
    """`IGNORED` for prefixes and padding."""
    advantages_B: Tensor
    siblings_B: Tensor

    @property
    def mask(self) -> Tensor:
        """[B, T], true for drawn tokens."""
        return self.labels_BL[:, 1:] != IGNORED

    def logprobs(self, model: Any) -> Tensor:
        """Natural log-probabilities [B, T] of the drawn tokens under ``model``; 0 elsewhere."""
        mask_BT = self.mask
        logprobs_N = -token_losses(model, self.ids_BL, self.labels_BL)
        return logprobs_N.new_zeros(mask_BT.shape).masked_scatter(mask_BT, logprobs_N)


def make_batches(
    sequences: Sequence[RolloutSequence], *, pass_tokens: int, pad_id: int, device: torch.device
) -> list[SequenceBatch]:
    """All sequences, longest first, in passes of at most ``pass_tokens`` with padding."""
    lengths = [len(one.row.ids_L) for one in sequences]
    return [
        _collate([sequences[place] for place in places], pad_id=pad_id, device=device)
        for places in cut_passes(lengths, pass_tokens=pass_tokens)
    ]


def _collate(
    sequences: Sequence[RolloutSequence], *, pad_id: int, device: torch.device
) -> SequenceBatch:
    ids_BL, labels_BL = pad([one.row for one in sequences], pad_id=pad_id)
    return SequenceBatch(
        ids_BL=ids_BL.to(device),
        labels_BL=labels_BL.to(device),
        advantages_B=torch.tensor([one.advantage for one in sequences], device=device),
        siblings_B=torch.tensor([one.siblings for one in sequences], device=device),
    )
