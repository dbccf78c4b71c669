"""Token-level losses and metrics of PPO.

Losses are [B, T] and unreduced: the caller sums over the tokens of the mask and divides by the tokens of the
whole batch, so that micro-batches add up to the same loss.

Axes: B paths, T tokens of a completion.
"""

from collections import defaultdict

import torch

from pipeline_lib.train.devices import present_devices


def policy_losses(
    logprobs_BT: torch.Tensor,
    old_logprobs_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    *,
    clip: float,
) -> torch.Tensor:
    """Minus the smaller of ratio x advantage and clipped ratio x advantage: [B, T].

    Source: Schulman et al. 2017 (arXiv:1707.06347), equation 7.
    """
    ratios_BT = (logprobs_BT - old_logprobs_BT).exp()
    clipped_BT = ratios_BT.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratios_BT * advantages_BT, clipped_BT * advantages_BT)


def value_losses(
    values_BT: torch.Tensor,
    old_values_BT: torch.Tensor,
    returns_BT: torch.Tensor,
    *,
    clip: float,
) -> torch.Tensor:
    """Half the larger squared error of the value and of the value moved by at most ``clip``: [B, T].

    Source: Schulman et al. 2016 (arXiv:1506.02438) for the error, OpenAI's ``baselines``
    for the clipped form.
    """
    near_BT = old_values_BT + (values_BT - old_values_BT).clamp(-clip, clip)
    return 0.5 * torch.maximum((values_BT - returns_BT) ** 2, (near_BT - returns_BT) ** 2)


def clip_indicators(
    logprobs_BT: torch.Tensor, old_logprobs_BT: torch.Tensor, *, clip: float
) -> torch.Tensor:
    """1 where the ratio is outside [1 - clip, 1 + clip], 0 elsewhere: [B, T]."""
    return (((logprobs_BT - old_logprobs_BT).exp() - 1).abs() > clip).float()


def k3_kl(logprobs_BT: torch.Tensor, other_logprobs_BT: torch.Tensor) -> torch.Tensor:
    """Unbiased, non-negative estimates of KL(policy || other) from tokens of the policy: [B, T].

    Source: Schulman 2020, "Approximating KL divergence", estimator k3.
    """
    log_ratios_BT = other_logprobs_BT - logprobs_BT
    return log_ratios_BT.exp() - 1 - log_ratios_BT


def explained_variance(
    values_BT: torch.Tensor, returns_BT: torch.Tensor, mask_BT: torch.Tensor
) -> float | None:
    """Share of the returns' variance that the values explain: at most 1, None without variance."""
    returns = returns_BT[mask_BT]
    variance = returns.var(correction=0)
    if variance == 0:
        return None
    return float(1 - (returns - values_BT[mask_BT]).var(correction=0) / variance)


class TokenMeans:
    """Means over the tokens of a step, accumulated over micro-batches."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._tokens = 0

    def add(self, mask_BT: torch.Tensor, **values_BT: torch.Tensor) -> None:
        """Add the values of the tokens in ``mask_BT``; every call has the same names."""
        self._tokens += int(mask_BT.sum())
        for name, value_BT in values_BT.items():
            self._sums[name] += float((value_BT.detach() * mask_BT).sum())

    def means(self) -> dict[str, float]:
        """Mean of each value over all tokens of all processes so far, of which there is at least one."""
        parts = present_devices().gather([(self._tokens, dict(self._sums))])
        tokens = sum(count for count, _ in parts)
        names = dict.fromkeys(name for _, sums in parts for name in sums)
        return {name: sum(sums.get(name, 0.0) for _, sums in parts) / tokens for name in names}
