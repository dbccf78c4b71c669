"""What a model knows of an example before it thinks: its tokens, and a vector for its puzzle.

Puzzle vectors are many and each is used rarely, so they are no parameters: a step gets gradients for
the rows it used, and `optimizer.SignSgd` moves these alone.

Axes: B rows, P prefix positions, L positions of the sequence, S = P + L, D channels.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from pipeline_lib.latent.model.layers import truncated_normal_
from pipeline_lib.latent.model.protocol import Batch, Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedRows:
    """The puzzle vectors of one training step, as a leaf of its graph."""

    ids_B: Tensor
    real_B: Tensor
    vectors_BD: Tensor
    """After the backward pass its ``grad`` is that of the loss."""


class PuzzleEmbedding(nn.Module):
    """One vector a puzzle, zero at the start."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(rows, width))
        self.used: UsedRows | None = None

    @override
    def forward(self, batch: Batch) -> Tensor:
        """Vectors [B, D]; where gradients are on they are kept in ``used``."""
        vectors_BD = self.get_buffer("weight")[batch.puzzle_ids_B]
        if torch.is_grad_enabled():
            vectors_BD.requires_grad_()
            self.used = UsedRows(
                ids_B=batch.puzzle_ids_B, real_B=batch.real_B, vectors_BD=vectors_BD
            )
        return vectors_BD


class InputEmbedding(nn.Module):
    """Puzzle vector, empty prefix and tokens, with unit mean square for a token."""

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
