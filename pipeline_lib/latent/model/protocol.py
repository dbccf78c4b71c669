"""What a latent model is to its trainer and its evaluator: batches in, a loss or K answers out.

Axes: B rows of a batch, K branches, L positions of a sequence, V tokens of the vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pipeline_lib.latent.model.numerics import NoiseSource

IGNORED_LABEL = 0
"""The label of a position that is neither learnt nor scored; also the padding token."""

Carry = Mapping[str, Tensor]
"""State that a model takes from one training step to the next, as named tensors for a checkpoint.

Each has one entry a row of the batch, along its first axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the data set decides about a model."""

    vocab_size: int
    seq_len: int
    num_puzzle_ids: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Examples with their answers. A row that is not real fills up the batch and counts nowhere."""

    inputs_BL: Tensor
    """int64 tokens."""
    labels_BL: Tensor
    """int64 tokens, `IGNORED_LABEL` where nothing is asked."""
    puzzle_ids_B: Tensor
    """int64 rows of the puzzle embedding."""
    real_B: Tensor
    """bool."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on ``device``."""
        return Batch(
            inputs_BL=self.inputs_BL.to(device, non_blocking=True),
            labels_BL=self.labels_BL.to(device, non_blocking=True),
            puzzle_ids_B=self.puzzle_ids_B.to(device, non_blocking=True),
            real_B=self.real_B.to(device, non_blocking=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOutput:
    """K answers to every row."""

    logits_BKLV: Tensor
    """float32, for stablemax (see `losses`), not for softmax."""
    scores_BK: Tensor
    """float32 logits: sigmoid says how likely the model finds a branch to be exactly right."""
    core_passes: float
    """Passes of one sequence through the stack of blocks that the K answers to one row cost: the
    measure of compute by which models of equal width and depth are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """What one training step made; the trainer calls ``loss.backward()``."""

    loss: Tensor
    """Scalar, a mean over real rows."""
    parts: dict[str, Tensor]
    """Detached scalars to log."""
    carry: Carry | None
    """To be handed to the next step; None for a model that keeps nothing."""


class LatentModel(Protocol):
    """A `torch.nn.Module` that answers puzzles by recursion in latent space."""

    def training_step(
        self,
        batch: Batch,
        *,
        carry: Carry | None,
        progress: float,
        generator: torch.Generator | None,
    ) -> StepOutput:
        """The loss of ``batch``. ``progress`` in [0, 1] is the share of training that is done.

        All randomness comes from ``generator``; without one, from torch's own.
        """
        ...

    def predict(
        self,
        batch: Batch,
        *,
        steps: int | None = None,
        noise: float = 0.0,
        rollouts: int = 1,
        generator: NoiseSource = None,
    ) -> BranchOutput:
        """Answers without gradients; deterministic with ``noise`` 0.

        ``steps`` replaces the trained number of recursion (or supervision) steps. With ``noise``, the
        standard deviation of what is added to the latents at every step, each of ``rollouts`` runs
        goes its own way and gives all K branches, so the output holds K x rollouts answers.
        With a generator a row, a row's answers do not depend on the others, and those of fewer
        rollouts are the first ones of more.
        """
        ...
