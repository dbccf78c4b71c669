"""Paths with the log-probabilities and values of the policy and critic that drew them, and GAE of both.

Axes: B paths, T tokens of a completion.
"""

from dataclasses import dataclass

import torch

from pipeline_lib.params.train import PpoParams
from pipeline_lib.train.ppo import gae, losses
from pipeline_lib.train.ppo.path_batch import PathBatch


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
        return Experience(
            batch=batch,
            logprobs_BT=self.logprobs_BT[places, :size],
            values_BT=self.values_BT[places, :size],
            advantages_BT=self.advantages_BT[places, :size],
            returns_BT=self.returns_BT[places, :size],
        )

    def metrics(self) -> dict[str, float]:
        """Explained variance of the critic; empty if all returns are equal."""
        mask_BT = self.batch.mask_BT
        explained = losses.explained_variance(self.values_BT, self.returns_BT, mask_BT)
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
    estimate = gae.compute_gae(
        gae.token_rewards(batch.outcomes_B, batch.mask_BT, penalties_BT=penalties_BT),
        values_BT,
        batch.mask_BT,
        gamma=params.gamma,
        gae_lambda=params.gae_lambda,
    )
    return Experience(
        batch=batch,
        logprobs_BT=logprobs_BT,
        values_BT=values_BT,
        advantages_BT=gae.whiten(estimate.advantages_BT, batch.mask_BT),
        returns_BT=estimate.returns_BT,
    )
