"""Scores of labelled tokens on a CPU, from the logits of labelled columns only.

TRL's fused head never stores the logits: it computes them in tiles, for prompts and padding as well, and
again in the backward pass. That pays with a large vocabulary on a GPU. On a CPU, small logits are cheaper
to store.

Axes: B rows, L columns, K columns from the first that predicts a label, V vocabulary.
"""

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel

IGNORED = -100
"""The label of a token without a loss."""
_MAX_LOGITS = 1 << 25
"""Numbers that are stored at most: 128 MiB in float32, and as much again for the gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledScores:
    """The attributes that TRL's losses read of a fused head, [B, K - 1] each; zero without a label."""

    log_probs: torch.Tensor
    """Natural log."""
    entropy: torch.Tensor
    """In nats, without a gradient."""
    is_top1: torch.Tensor
    """True where no other token is more likely."""
    label_mask: torch.Tensor
    aux_loss: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledHead:
    """A model that returns LabelledScores where TRL calls its fused head."""

    model: Any

    def __call__(
        self, *, fused_lm_head: bool = False, labels: torch.Tensor | None = None, **inputs: Any
    ) -> Any:
        """The scores of ``labels`` [B, L]; any other call goes to the model."""
        if not fused_lm_head or labels is None:
            return self.model(**inputs, labels=labels, fused_lm_head=fused_lm_head)
        columns = labels.shape[1]
        kept = columns - _first(labels) + 1
        logits_BKV = self.model(**inputs, logits_to_keep=kept).logits
        return score_labels(logits_BKV[:, :-1], labels[:, columns - kept + 1 :])


def is_small(model: Any, labels: torch.Tensor) -> bool:
    """True if the logits of ``labels`` [B, L] are to be stored: on a CPU, up to a size."""
    plain: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    vocabulary = plain.config.get_text_config().vocab_size
    return (
        labels.device.type == "cpu"
        and labels.numel() * vocabulary <= _MAX_LOGITS
        and "logits_to_keep" in inspect.signature(plain.forward).parameters
    )


def score_labels(logits_BKV: torch.Tensor, labels_BK: torch.Tensor) -> LabelledScores:
    """Scores of ``labels_BK``, each by the logits at its own index."""
    mask_BK = labels_BK != IGNORED
    log_probs_BKV = logits_BKV.float().log_softmax(-1)
    chosen_BK1 = labels_BK.clamp(min=0)[..., None]
    own_BK = log_probs_BKV.gather(-1, chosen_BK1)[..., 0] * mask_BK
    with torch.no_grad():
        entropy_BK = -(log_probs_BKV.exp() * log_probs_BKV).sum(-1) * mask_BK
        is_top1_BK = (log_probs_BKV.argmax(-1) == labels_BK) & mask_BK
    return LabelledScores(
        log_probs=own_BK, entropy=entropy_BK, is_top1=is_top1_BK, label_mask=mask_BK
    )


def _first(labels: torch.Tensor) -> int:
    """The first labelled column from the second on, since no logits predict the first token."""
    labelled_L = (labels[:, 1:] != IGNORED).any(0)
    return 1 + int(labelled_L.int().argmax())
