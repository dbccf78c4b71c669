"""Token rewards, generalized advantage estimation (GAE) and whitening, as pure functions of tensors.

An experience is a batch of paths with the log-probabilities and values of the policy and critic that drew them.

``mask_BT`` is true for drawn tokens, which precede the padding of a row; padding gets zeros.

Axes: B paths, T tokens of a completion.
"""

from dataclasses import dataclass

import torch

from pipeline_lib.params.train import PpoParams
from pipeline_lib.train.ppo.losses import explained_variance
from pipeline_lib.train.ppo.path_batch import PathBatch

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
