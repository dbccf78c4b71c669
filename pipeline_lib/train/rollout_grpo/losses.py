"""The loss of a sequence of a rollout, and the advantages of groups of rollouts: pure functions.

Axes: P prompts, N rollouts of a prompt, B sequences, T tokens.
"""

import torch
from torch import Tensor

from pipeline_lib.train.ppo.losses import k3_kl, policy_losses

_EPSILON = 1e-10
"""Added to a standard deviation before dividing by it."""


def group_advantages(rewards_PN: Tensor) -> Tensor:
    """``(r - mean) / (std + 1e-10)`` over the rollouts of a group that have a reward.

    The standard deviation is the population's. Rewards 1, 0, 0, 1, 0 have mean 2/5 and standard
    deviation sqrt(6)/5: advantages 3/sqrt(6) and -2/sqrt(6).

    Rewards are float64, since rounding must stay below 1e-10 where all are equal; NaN without a reward.

    Source: arXiv:2504.15466, section 3.3; Shao et al. 2024 (arXiv:2402.03300), section 4.1.2.
    """
    deviations_PN = rewards_PN - rewards_PN.nanmean(1, keepdim=True)
    std_P1 = (deviations_PN**2).nanmean(1, keepdim=True).sqrt()
    return deviations_PN / (std_P1 + _EPSILON)


def sequence_losses(  # noqa: PLR0913 - the terms of the formula
    logprobs_BT: Tensor,
    old_logprobs_BT: Tensor,
    reference_BT: Tensor,
    *,
    mask_BT: Tensor,
    advantages_B: Tensor,
    siblings_B: Tensor,
    clip: float,
    kl_coef: float,
) -> Tensor:
    """Losses [B]; the loss of a step is their mean over all of its sequences.

    ``mean_t max(-A rho, -A clip(rho)) / n + kl_coef x mean_t k3``, where n is the number of sequences of the
    rollout: its advantage weighs the same however many sequences it has. Sequences with A = 0 take part by
    their k3 alone.

    Args:
        logprobs_BT: natural log-probabilities of the drawn tokens under the policy.
        old_logprobs_BT: under the policy before the first update on the draw.
        reference_BT: under the policy at the start of training.
        mask_BT: true for drawn tokens, end tokens included; each row has one.
        advantages_B: of the rollout that a sequence belongs to.
        siblings_B: n.
        clip: largest distance of a probability ratio rho from 1.
        kl_coef: weight of the divergence from the start.

    Source: arXiv:2504.15466, released code; Shao et al. 2024 (arXiv:2402.03300), equation 3.
    """
    policy_BT = policy_losses(logprobs_BT, old_logprobs_BT, advantages_B[:, None], clip=clip)
    policy_B = _row_means(policy_BT, mask_BT) / siblings_B
    return policy_B + kl_coef * _row_means(k3_kl(logprobs_BT, reference_BT), mask_BT)


def _row_means(numbers_BT: Tensor, mask_BT: Tensor) -> Tensor:
    return torch.where(mask_BT, numbers_BT, 0).sum(-1) / mask_BT.sum(-1)
