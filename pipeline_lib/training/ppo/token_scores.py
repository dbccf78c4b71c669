"""Log-probabilities, entropies and values of the tokens of given paths, and the reference policy.

Axes: B paths, T tokens of a completion, V vocabulary, H channels.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch

from pipeline_lib.params.train import LoraParams
from pipeline_lib.training.ppo.path_batch import PathBatch
from pipeline_lib.training.ppo.value_head import ValueHead


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """Each [B, T]; undefined outside the mask."""

    logprobs_BT: torch.Tensor
    """Natural log, at temperature 1."""
    entropies_BT: torch.Tensor
    """Of the distribution that the token was drawn from, in nats."""
    values_BT: torch.Tensor
    """The critic's estimate before the token is drawn."""


def score_tokens(
    model: Any, head: ValueHead, batch: PathBatch, *, body_share: float, entropy_gradient: bool
) -> TokenScores:
    """One forward pass over whole sequences, with gradients unless the caller disabled them."""
    logits_BTV, hidden_BTH = _forward(model, batch, hidden=True)
    log_probs_BTV = logits_BTV.float().log_softmax(-1)
    # A gradient of the entropy keeps a further [B, T, V] table in memory.
    with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
        entropies_BT = -(log_probs_BTV.exp() * log_probs_BTV).sum(-1)
    return TokenScores(
        logprobs_BT=_select(log_probs_BTV, batch),
        entropies_BT=entropies_BT,
        values_BT=head(hidden_BTH, body_share=body_share),
    )


@torch.no_grad()
def compute_logprobs(model: Any, batch: PathBatch) -> torch.Tensor:
    """Log-probabilities [B, T] under a model without a critic, such as the reference."""
    logits_BTV, _ = _forward(model, batch, hidden=False)
    return _select(logits_BTV.float().log_softmax(-1), batch)


def _forward(model: Any, batch: PathBatch, *, hidden: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [B, T, V] of the drawn tokens, and the hidden states [B, T, H] behind them."""
    # The logits of a token are those of the position before it.
    kept = batch.mask_BT.shape[1] + 1
    output = model(
        **batch.model_inputs(), use_cache=False, output_hidden_states=hidden, logits_to_keep=kept
    )
    states = output.hidden_states[-1] if hidden else output.logits
    return output.logits[:, -kept:-1], states[:, -kept:-1]


def _select(log_probs_BTV: torch.Tensor, batch: PathBatch) -> torch.Tensor:
    return log_probs_BTV.gather(-1, batch.completions[..., None])[..., 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The policy at the start of training, for the KL penalty."""

    copied: Any | None
    """A copy of all weights; None is the policy in training with its adapters disabled."""

    @classmethod
    def of(cls, model: Any, lora: LoraParams, device: torch.device) -> Self:
        """The reference of a model that is about to be trained."""
        return cls(copied=None if lora.enabled else copy.deepcopy(model).to(device).eval())

    @contextmanager
    def open(self, policy: Any) -> Iterator[Any]:
        """Yield the reference as a model; ``policy`` must not be used in the block."""
        if self.copied is not None:
            yield self.copied
            return
        with policy.disable_adapter():
            yield policy
