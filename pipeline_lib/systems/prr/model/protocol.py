"""Inputs and outputs of latent models: batches, the training loss, K answers.

Axes: B rows of a batch, K branches, L positions of a sequence, V tokens of the vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

IGNORED_LABEL = 0
"""Label of positions without loss and score; equal to the padding token."""

Carry = Mapping[str, Tensor]
"""State carried between training steps, as named tensors, saved in checkpoints.

The first axis of each is the rows of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of a model that follow from its data set."""

    vocab_size: int
    seq_len: int
    num_puzzle_ids: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Examples with their labels. Rows that are not real are padding, excluded from all sums."""

    inputs_BL: Tensor
    """int64 tokens."""
    labels_BL: Tensor
    """int64 tokens; `IGNORED_LABEL` at positions without a label."""
    puzzle_ids_B: Tensor
    """int64 rows of the puzzle embedding."""
    real_B: Tensor
    """bool; False for padding rows."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on ``device``."""
        return Batch(
            **{name: part.to(device, non_blocking=True) for name, part in self.parts().items()}
        )

    def parts(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOutput:
    """K answers per row."""

    logits_BKLV: Tensor
    """float32, for stablemax (see `losses`), not for softmax."""
    scores_BK: Tensor
    """float32 logits of the probability that the branch is exactly right."""
    core_passes: float
    """Passes through the stack of blocks per row, over all K answers: the unit of compute for
    comparing models of equal width and depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """Result of one training step; the trainer calls ``loss.backward()``."""

    loss: Tensor
    """Scalar, a mean over real rows."""
    parts: dict[str, Tensor]
    """Detached scalars to log."""
    carry: Carry | None
    """Input of the next step; None for a stateless model."""
