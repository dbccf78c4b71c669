"""Sequences of a step as tensors: in passes of similar lengths, padded at the end.

Prefixes of 20 and of 200 tokens occur side by side, so prefixes are not aligned: that would pad most rows
on both sides. No token attends to padding behind it, so there is no mask.

Axes: B sequences of a pass, L tokens, T = L - 1 predicted tokens, N predicted tokens with a loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipeline_lib.train.offline.bucketed_sft import pad, token_losses
from pipeline_lib.train.offline.labelled_scores import IGNORED
from pipeline_lib.train.offline.token_steps import TokenRow, cut_passes


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSequence:
    """A drawn sequence, and what it takes from its rollout."""

    row: TokenRow
    """Prefix and drawn tokens; the loss begins at the first drawn one."""
    advantage: float
    siblings: int
    """Sequences of the rollout, this one included."""


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
