"""Input embeddings: tokens, and one learned vector per puzzle.

Puzzle vectors are sparse: many rows, each rarely used. They are a buffer, not a parameter; a step
collects gradients of the rows in use, and `optimizer.SignSgd` updates only these.

Axes: B rows, P prefix positions, L positions of the sequence, S = P + L, D channels.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from pipeline_lib.systems.prr.model.layers import truncated_normal_
from pipeline_lib.systems.prr.model.protocol import Batch, Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedRows:
    """The puzzle vectors used by one training step, as a leaf of its autograd graph."""

    ids_B: Tensor
    real_B: Tensor
    vectors_BD: Tensor
    """Holds the gradient of the loss after the backward pass."""


class PuzzleEmbedding(nn.Module):
    """One vector per puzzle, initialised to zero."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(rows, width))
        self.used: UsedRows | None = None

    @override
    def forward(self, batch: Batch) -> Tensor:
        """Vectors [B, D]; with gradients enabled they are also stored in ``used``."""
        vectors_BD = self.get_buffer("weight")[batch.puzzle_ids_B]
        if torch.is_grad_enabled():
            vectors_BD.requires_grad_()
            self.used = UsedRows(
                ids_B=batch.puzzle_ids_B, real_B=batch.real_B, vectors_BD=vectors_BD
            )
        return vectors_BD


class InputEmbedding(nn.Module):
    """Puzzle vector, zero prefix and token embeddings; a token has unit mean square."""

    def __init__(self, sizes: Sizes, *, width: int, prefix: int) -> None:
        super().__init__()
        self.prefix = prefix
        self.scale = math.sqrt(width)
        self.tokens = nn.Embedding(sizes.vocab_size, width)
        truncated_normal_(self.tokens.weight.data, std=1 / self.scale)
        self.puzzles = PuzzleEmbedding(sizes.num_puzzle_ids, width)

    @override
    def forward(self, batch: Batch) -> Tensor:
        """[B, S, D]."""
        first_BD = self.puzzles(batch)
        prefix_BPD = functional.pad(first_BD[:, None], (0, 0, 0, self.prefix - 1))
        tokens_BLD = self.tokens(batch.inputs_BL)
        return self.scale * torch.cat((prefix_BPD, tokens_BLD), dim=1)
