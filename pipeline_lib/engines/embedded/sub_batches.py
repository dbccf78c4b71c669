"""Sub-batches: sequences that are decoded in lockstep, in one rectangle of keys and values.

A batch holds several sub-batches. The sequences of one joined at about the same time; their newest
tokens are in the same column. Three sequences with prompts of 4, 2 and 3 tokens, after two steps:

    column    0  1  2  3  4  5  6  7
    row 0     p  p  p  p  d  d  .  .     starts_R = 0
    row 1     -  -  p  p  d  d  .  .                2
    row 2     -  p  p  p  d  d  .  .                1
                                ^ length = 6: the column that the next step writes

    p prompt, d decoded, - padding (masked), . spare columns (masked)

Padding within a sub-batch is at most the spread of its prompt lengths, however long the older sub-batches
have grown, so attention reads little that is masked.

transformers calls attention functions that are registered by name; the function `ATTENTION` gets the sub-batches of a
step as the keyword ``sub_batches`` of the model's call. Without it, it is plain sdpa.

Axes: B sequences of all sub-batches in order, N tensors of one shape, R rows of a sub-batch (one per sequence), Q query
heads, H key-value heads, G query heads of one key-value head, C columns, D channels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from pipeline_lib.engines.embedded.kv_blocks import KvBlock, KvPool
from pipeline_lib.engines.embedded.prefill import PromptState


@dataclass(slots=True, kw_only=True)
class SubBatch:
    """Row r of the block holds the sequence in ``slots_R[r]``, in columns ``starts_R[r]:length``.

    The block may have further rows, of sequences that have ended.
    """

    slots_R: np.ndarray
    starts_R: np.ndarray
    length: int
    block: KvBlock
    mask_RHC: torch.Tensor
    """Added to attention scores: 0 in used columns, minus infinity in all others."""

    @property
    def size(self) -> int:
        """Sequences."""
        return len(self.slots_R)

    @property
    def used_columns(self) -> int:
        """Columns from the first used by any row to the newest."""
        return self.length - int(self.starts_R.min())

    @property
    def is_full(self) -> bool:
        """True if there is no column for one more token."""
        return self.length == self.block.columns

    def drop(self, ended_R: np.ndarray) -> None:
        """Remove the rows marked in ``ended_R``; rows from the end fill the gaps."""
        left = self.size - int(ended_R.sum())
        holes = np.flatnonzero(ended_R[:left])
        movers = left + np.flatnonzero(~ended_R[left:])
        for hole, mover in zip(holes.tolist(), movers.tolist(), strict=True):
            columns = slice(int(self.starts_R[mover]), self.length)
            for slab in self.block.slabs:
                slab[:, hole, :, columns] = slab[:, mover, :, columns]
            self.mask_RHC[hole] = self.mask_RHC[mover]
        for per_row in (self.slots_R, self.starts_R):
            per_row[holes] = per_row[movers]
        self.slots_R, self.starts_R = self.slots_R[:left], self.starts_R[:left]


def make_sub_batch(states: Sequence[PromptState], slots_R: np.ndarray, pool: KvPool) -> SubBatch:
    """A sub-batch of new sequences: row r has slot ``slots_R[r]`` and the prompt ``states[r]``."""
    lengths_R = np.array([len(state.tokens) for state in states])
    length = int(lengths_R.max())
    columns = length + _spare_columns(length)
    block = pool.allocate(states[0].shape, rows=len(states), columns=columns)
    row = 0
    for _, same in groupby(states, key=id):
        count = len(list(same))
        states[row].write(block, slice(row, row + count), end=length)
        row += count
    return _sub_batch(block, slots_R, length - lengths_R, length)


def merge_sub_batches(sub_batches: Sequence[SubBatch], pool: KvPool) -> SubBatch:
    """One sub-batch of all sequences, in order, with new spare columns; the old blocks are released."""
    length = max(sub_batch.used_columns for sub_batch in sub_batches)
    rows = sum(sub_batch.size for sub_batch in sub_batches)
    columns = length + _spare_columns(length)
    block = pool.allocate(sub_batches[0].block.shape, rows=rows, columns=columns)
    row = 0
    starts = []
    for sub_batch in sub_batches:
        used, size = sub_batch.used_columns, sub_batch.size
        for mine, theirs in zip(sub_batch.block.slabs, block.slabs, strict=True):
            theirs[:, row : row + size, :, length - used : length] = mine[
                :, :size, :, sub_batch.length - used : sub_batch.length
            ]
        starts.append(sub_batch.starts_R + (length - sub_batch.length))
        row += size
        pool.release(sub_batch.block)
    slots_R = np.concatenate([sub_batch.slots_R for sub_batch in sub_batches])
    return _sub_batch(block, slots_R, np.concatenate(starts), length)


def _sub_batch(block: KvBlock, slots_R: np.ndarray, starts_R: np.ndarray, length: int) -> SubBatch:
    columns_C = torch.arange(block.columns)
    masked_RC = (columns_C < torch.from_numpy(starts_R)[:, None]) | (columns_C >= length)
    heads = block.keys[0].shape[1]
    return SubBatch(
        slots_R=slots_R,
        starts_R=starts_R,
        length=length,
        block=block,
        mask_RHC=torch.zeros(masked_RC.shape, dtype=block.shape.dtype)
        .masked_fill_(masked_RC, -torch.inf)
        .to(block.shape.device)[:, None]
        .repeat(1, heads, 1),
    )


def _spare_columns(length: int) -> int:
    """Spare columns of a new block: balances reading masked ones against copying to a new block."""
    return 8 + math.isqrt(4 * length)


def choose_merge(sub_batches: Sequence[SubBatch]) -> tuple[int, int]:
    """Indices of the two sub-batches whose merge adds the fewest padded columns."""
    order = sorted(range(len(sub_batches)), key=lambda place: sub_batches[place].used_columns)

    def padding(pair: tuple[int, int]) -> int:
        shorter, longer = (sub_batches[place] for place in pair)
        return shorter.size * (longer.used_columns - shorter.used_columns)

    return min(pairwise(order), key=padding)


ATTENTION = "reasonloop_sub_batches"

# Options that do not affect one new token which attends to everything in the cache.
_WITHOUT_EFFECT = frozenset(
    {"dropout", "is_causal", "position_ids", "use_cache", "cache_position", "sliding_window"}
)


class UnsupportedAttentionError(Exception):
    """The model's attention is more than scaled scores, softmax and weighted sum."""


def _attention(  # noqa: PLR0913 - transformers' signature
    module: Any,
    query_BQ1D: torch.Tensor,
    key_BH1D: torch.Tensor,
    value_BH1D: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    sub_batches: Sequence[SubBatch] | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The function that transformers calls: output [B, 1, Q, D]."""
    if sub_batches is None:
        output, _ = sdpa_attention_forward(
            module,
            query_BQ1D,
            key_BH1D,
            value_BH1D,
            attention_mask,
            scaling=scaling,
            **options,
        )
        return output, None
    unknown = [
        name
        for name, value in options.items()
        if value is not None and value is not False and name not in _WITHOUT_EFFECT
    ]
    kept = sub_batches[0].block.keys[module.layer_idx].shape[1::2]
    if unknown or attention_mask is not None or key_BH1D.shape[1:] != (kept[0], 1, kept[1]):
        raise UnsupportedAttentionError(
            f"options {unknown}, keys {tuple(key_BH1D.shape[1:])}, kept {kept}"
        )
    if scaling is None:
        scaling = query_BQ1D.shape[-1] ** -0.5
    output_BQD = attend(
        sub_batches,
        layer=module.layer_idx,
        query_BQD=query_BQ1D[:, :, 0] * scaling,
        key_BHD=key_BH1D[:, :, 0],
        value_BHD=value_BH1D[:, :, 0],
    )
    return output_BQD[:, None], None


def attend(
    sub_batches: Sequence[SubBatch],
    *,
    layer: int,
    query_BQD: torch.Tensor,
    key_BHD: torch.Tensor,
    value_BHD: torch.Tensor,
) -> torch.Tensor:
    """Write keys and values to column ``length`` of each sub-batch, and attend up to it: [B, Q, D].

    The mask must already admit that column. Queries are scaled.
    """
    heads = key_BHD.shape[1]
    group = query_BQD.shape[1] // heads
    output_BQD = query_BQD.new_empty(*query_BQD.shape[:2], value_BHD.shape[-1])
    row = 0
    for sub_batch in sub_batches:
        rows = slice(row, row + sub_batch.size)
        row = rows.stop
        keys_RHCD = sub_batch.block.keys[layer][: sub_batch.size]
        values_RHCD = sub_batch.block.values[layer][: sub_batch.size]
        keys_RHCD[:, :, sub_batch.length] = key_BHD[rows]
        values_RHCD[:, :, sub_batch.length] = value_BHD[rows]
        # Rows and heads as one axis: bmm reads such a view in place, matmul would copy it. Masked
        # columns are read, too: skipping them breaks the contiguous read, which costs far more.
        rows_heads = sub_batch.size * heads
        scores = torch.baddbmm(
            sub_batch.mask_RHC[: sub_batch.size].view(rows_heads, 1, -1),
            query_BQD[rows].reshape(rows_heads, group, -1),
            keys_RHCD.flatten(0, 1).mT,
        )
        weights = scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
        torch.bmm(
            weights,
            values_RHCD.flatten(0, 1),
            out=output_BQD[rows].view(rows_heads, group, -1),
        )
    return output_BQD


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
