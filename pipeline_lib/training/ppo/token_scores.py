"""What a policy and its critic say of each token of given paths.

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
    """Each [B, T]; what stands at tokens outside the mask has no meaning."""

    logprobs_BT: torch.Tensor
    """Natural log, at temperature 1."""
    entropies_BT: torch.Tensor
    """Of the distribution that the token was drawn from, in nats."""
    values_BT: torch.Tensor
    """What the critic expects before it knows the token."""


def scored(
    model: Any, head: ValueHead, batch: PathBatch, *, body_share: float, entropy_gradient: bool
) -> TokenScores:
    """One pass of the model over whole sequences, with gradients where the caller's mode has them."""
    logits_BTV, hidden_BTH = _outputs(model, batch, hidden=True)
    log_probs_BTV = logits_BTV.float().log_softmax(-1)
    # Without use for them, gradients of the entropy would hold a further table of the vocabulary.
    with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
        entropies_BT = -(log_probs_BTV.exp() * log_probs_BTV).sum(-1)
    return TokenScores(
        logprobs_BT=_chosen(log_probs_BTV, batch),
        entropies_BT=entropies_BT,
        values_BT=head(hidden_BTH, body_share=body_share),
    )


@torch.no_grad()
def logprobs(model: Any, batch: PathBatch) -> torch.Tensor:
    """Log-probabilities [B, T] under a model without critic, such as the reference."""
    logits_BTV, _ = _outputs(model, batch, hidden=False)
    return _chosen(logits_BTV.float().log_softmax(-1), batch)


def _outputs(model: Any, batch: PathBatch, *, hidden: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [B, T, V] of each drawn token, and the hidden state [B, T, H] that they come from."""
    # What predicts a token stands one position before it.
    kept = batch.mask_BT.shape[1] + 1
    output = model(
        **batch.model_inputs(), use_cache=False, output_hidden_states=hidden, logits_to_keep=kept
    )
    states = output.hidden_states[-1] if hidden else output.logits
    return output.logits[:, -kept:-1], states[:, -kept:-1]


def _chosen(log_probs_BTV: torch.Tensor, batch: PathBatch) -> torch.Tensor:
    return log_probs_BTV.gather(-1, batch.completions[..., None])[..., 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A copy of all weights, or with adapters the body that they sit on."""

    copied: Any | None
    """None stands for the policy in training with its adapters off."""

    @classmethod
    def of(cls, model: Any, lora: LoraParams, device: torch.device) -> Self:
        """That of a model which is about to be trained."""
        return cls(copied=None if lora.enabled else copy.deepcopy(model).to(device).eval())

    @contextmanager
    def opened(self, policy: Any) -> Iterator[Any]:
        """The reference as a model; ``policy`` must not be used beside it."""
        if self.copied is not None:
            yield self.copied
            return
        with policy.disable_adapter():
            yield policy
