"""Paths as tensors, prompts padded on the left and completions on the right; which of a draw are trained on.

Axes: B paths, S = P + T positions, P of the longest prompt, T tokens of the longest completion; of rewards P prompts,
N paths of a prompt, K parts.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from pipeline_lib.params.train import PpoParams
from pipeline_lib.train.advantages.rules import AdvantageRule, compute_advantages
from pipeline_lib.train.online.rewards import share_equal_groups
from pipeline_lib.train.online.rollouts import DrawnPath
from pipeline_lib.train.ppo.losses import explained_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPath:
    """One drawn path and its outcome."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    outcome: float
    """Reward of the last token: the path's reward, or its group-relative advantage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathBatch:
    """Paths that go through the model together."""

    tokens_BS: torch.Tensor
    pads_B: torch.Tensor
    """Number of padding positions on the left."""
    mask_BT: torch.Tensor
    """True for drawn tokens among the last T positions; they come first, and each row has one."""
    outcomes_B: torch.Tensor

    @property
    def count(self) -> int:
        """Number of paths."""
        return len(self.outcomes_B)

    @property
    def completions(self) -> torch.Tensor:
        """The drawn tokens [B, T], padded on the right."""
        return self.tokens_BS[:, -self.mask_BT.shape[1] :]

    def model_inputs(self) -> dict[str, torch.Tensor]:
        """Arguments of the model's call.

        Padding on the right is visible to no token before it. Without padding on the left there is no
        mask, and attention takes its fast path.
        """
        if not self.pads_B.any():
            return {"input_ids": self.tokens_BS}
        places_S = torch.arange(self.tokens_BS.shape[1], device=self.tokens_BS.device)
        positions_BS = places_S - self.pads_B[:, None]
        return {
            "input_ids": self.tokens_BS,
            "attention_mask": (positions_BS >= 0).long(),
            "position_ids": positions_BS.clamp(min=0),
        }

    def part(self, places: torch.Tensor) -> "PathBatch":
        """The paths at ``places``, without positions that are padding in all of them."""
        mask_BT = self.mask_BT[places]
        size = int(mask_BT.any(0).sum())
        first = int(self.pads_B[places].min())
        end = self.tokens_BS.shape[1] - mask_BT.shape[1] + size
        return PathBatch(
            tokens_BS=self.tokens_BS[places, first:end],
            pads_B=self.pads_B[places] - first,
            mask_BT=mask_BT[:, :size],
            outcomes_B=self.outcomes_B[places],
        )

    def passes(self, size: int) -> Sequence[torch.Tensor]:
        """Places of all paths in parts of at most ``size``, sorted by completion length."""
        return torch.split(self.mask_BT.sum(-1).argsort(stable=True), size)

    def join(self, passes: Sequence[torch.Tensor], numbers: Sequence[torch.Tensor]) -> torch.Tensor:
        """Numbers of the tokens of each pass as one tensor [B, T]; 0 behind a path's end."""
        whole_BT = numbers[0].new_zeros(self.mask_BT.shape)
        for places, part in zip(passes, numbers, strict=True):
            whole_BT[places, : part.shape[1]] = part
        return whole_BT


def collate(paths: Sequence[TokenPath], *, pad_id: int, device: torch.device) -> PathBatch:
    """One batch of ``paths``, each with at least one token in prompt and completion."""
    prompt_size = max(len(path.prompt_ids) for path in paths)
    size = max(len(path.completion_ids) for path in paths)
    pads = [prompt_size - len(path.prompt_ids) for path in paths]
    tokens_BS = torch.full((len(paths), prompt_size + size), pad_id)
    mask_BT = torch.zeros(len(paths), size, dtype=torch.bool)
    for row, path in enumerate(paths):
        ids = [*path.prompt_ids, *path.completion_ids]
        tokens_BS[row, pads[row] : pads[row] + len(ids)] = torch.tensor(ids)
        mask_BT[row, : len(path.completion_ids)] = True
    return PathBatch(
        tokens_BS=tokens_BS.to(device),
        pads_B=torch.tensor(pads, device=device),
        mask_BT=mask_BT.to(device),
        outcomes_B=torch.tensor([path.outcome for path in paths], device=device),
    )


def select_trainable(
    paths: Sequence[DrawnPath],
    rewards: Sequence[float | None],
    *,
    rule: AdvantageRule | None,
    group_size: int,
) -> list[TokenPath]:
    """The paths with a reward, which a rule replaces by the group-relative advantage; groups are adjacent.

    Paths that were cut at the length limit are among them: without these a policy under a KL penalty or an entropy bonus
    learns not to end.
    """
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


_EPSILON = 1e-4
"""Added to a standard deviation before dividing by it, so that rounding errors are not blown up."""


def token_rewards(
    outcomes_B: torch.Tensor, mask_BT: torch.Tensor, *, penalties_BT: torch.Tensor | None = None
) -> torch.Tensor:
    """The outcome of a path on its last token, less a penalty on every token: [B, T]."""
    rewards_BT = torch.zeros(mask_BT.shape, dtype=outcomes_B.dtype, device=outcomes_B.device)
    last_B1 = mask_BT.sum(-1, keepdim=True) - 1
    rewards_BT.scatter_(-1, last_B1, outcomes_B[:, None])
    if penalties_BT is not None:
        rewards_BT -= penalties_BT * mask_BT
    return rewards_BT


def compute_gae(
    rewards_BT: torch.Tensor,
    values_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages by the backward recursion, and returns, the targets of the critic: advantages plus values.

    The value after the last token is 0.

    Source: Schulman et al. 2016 (arXiv:1506.02438), equations 12 and 16.
    """
    values_BT = values_BT * mask_BT
    advantages_BT = torch.zeros_like(values_BT)
    following_B, next_values_B = torch.zeros_like(values_BT[:, :1].expand(-1, 2)).unbind(-1)
    for token in reversed(range(values_BT.shape[1])):
        delta_B = rewards_BT[:, token] + gamma * next_values_B - values_BT[:, token]
        following_B = (delta_B + gamma * gae_lambda * following_B) * mask_BT[:, token]
        advantages_BT[:, token] = following_B
        next_values_B = values_BT[:, token]
    return advantages_BT, advantages_BT + values_BT


def whiten(numbers_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """Mean 0 and standard deviation 1 over the tokens of the mask; zeros elsewhere."""
    chosen = numbers_BT[mask_BT]
    std = chosen.std(correction=0)
    return (numbers_BT - chosen.mean()) / (std + _EPSILON) * mask_BT


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """Constants of the losses of one draw."""

    batch: PathBatch
    logprobs_BT: torch.Tensor
    """Under the policy that drew the paths."""
    values_BT: torch.Tensor
    """By the critic before any update on the draw."""
    advantages_BT: torch.Tensor
    """Whitened over all tokens of the draw."""
    returns_BT: torch.Tensor

    def part(self, places: torch.Tensor) -> "Experience":
        """The experience of the paths at ``places``."""
        batch = self.batch.part(places)
        size = batch.mask_BT.shape[1]
        own = ("logprobs_BT", "values_BT", "advantages_BT", "returns_BT")
        return Experience(batch=batch, **{n: getattr(self, n)[places, :size] for n in own})

    def metrics(self) -> dict[str, float]:
        """Explained variance of the critic; empty if all returns are equal."""
        explained = explained_variance(self.values_BT, self.returns_BT, self.batch.mask_BT)
        return {} if explained is None else {"explained_variance": explained}


def make_experience(
    batch: PathBatch,
    logprobs_BT: torch.Tensor,
    values_BT: torch.Tensor,
    params: PpoParams,
    *,
    reference_BT: torch.Tensor | None = None,
) -> Experience:
    """Advantages and returns of ``batch``, scored by the policy that drew it and the critic before the update.

    The KL penalty is part of the reward of each token, ``kl_coef`` times the log-ratio: through the
    advantage it gives the gradient of the KL divergence of whole paths, which the same term in the loss
    would not (Ouyang et al. 2022, arXiv:2203.02155, equation 2). Without ``reference_BT`` there is none.
    """
    penalties_BT = None
    if reference_BT is not None:
        penalties_BT = params.kl_coef * (logprobs_BT - reference_BT)
    advantages_BT, returns_BT = compute_gae(
        token_rewards(batch.outcomes_B, batch.mask_BT, penalties_BT=penalties_BT),
        values_BT,
        batch.mask_BT,
        gamma=params.gamma,
        gae_lambda=params.gae_lambda,
    )
    return Experience(
        batch=batch,
        logprobs_BT=logprobs_BT,
        values_BT=values_BT,
        advantages_BT=whiten(advantages_BT, batch.mask_BT),
        returns_BT=returns_BT,
    )
