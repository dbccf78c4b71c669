"""Cohorts: sequences that are decoded in lockstep, in one rectangle of keys and values.

A batch holds several cohorts. The sequences of one joined at about the same time; their newest
tokens are in the same column. Three sequences with prompts of 4, 2 and 3 tokens, after two steps:

    column    0  1  2  3  4  5  6  7
    row 0     p  p  p  p  d  d  .  .     starts_R = 0
    row 1     -  -  p  p  d  d  .  .                2
    row 2     -  p  p  p  d  d  .  .                1
                                ^ length = 6: the column that the next step writes

    p prompt, d decoded, - padding (masked), . spare columns (masked)

Padding within a cohort is at most the spread of its prompt lengths, however long the older cohorts
have grown, so attention reads little that is masked.

Axes: N tensors of one shape, R rows of a cohort (one per sequence), H key-value heads, C columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import torch

from pipeline_lib.engines.embedded.kv_blocks import KvBlock, KvPool
from pipeline_lib.engines.embedded.prefill import PromptState


@dataclass(slots=True, kw_only=True)
class Cohort:
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


def make_cohort(states: Sequence[PromptState], slots_R: np.ndarray, pool: KvPool) -> Cohort:
    """A cohort of new sequences: row r has slot ``slots_R[r]`` and the prompt ``states[r]``."""
    lengths_R = np.array([len(state.tokens) for state in states])
    length = int(lengths_R.max())
    columns = length + _spare_columns(length)
    block = pool.allocate(states[0].shape, rows=len(states), columns=columns)
    row = 0
    for _, same in groupby(states, key=id):
        count = len(list(same))
        states[row].write(block, slice(row, row + count), end=length)
        row += count
    return _cohort(block, slots_R, length - lengths_R, length)


def merge_cohorts(cohorts: Sequence[Cohort], pool: KvPool) -> Cohort:
    """One cohort of all sequences, in order, with new spare columns; the old blocks are released."""
    length = max(cohort.used_columns for cohort in cohorts)
    rows = sum(cohort.size for cohort in cohorts)
    columns = length + _spare_columns(length)
    block = pool.allocate(cohorts[0].block.shape, rows=rows, columns=columns)
    row = 0
    starts = []
    for cohort in cohorts:
        used, size = cohort.used_columns, cohort.size
        for mine, theirs in zip(cohort.block.slabs, block.slabs, strict=True):
            theirs[:, row : row + size, :, length - used : length] = mine[
                :, :size, :, cohort.length - used : cohort.length
            ]
        starts.append(cohort.starts_R + (length - cohort.length))
        row += size
        pool.release(cohort.block)
    slots_R = np.concatenate([cohort.slots_R for cohort in cohorts])
    return _cohort(block, slots_R, np.concatenate(starts), length)


def _cohort(block: KvBlock, slots_R: np.ndarray, starts_R: np.ndarray, length: int) -> Cohort:
    columns_C = torch.arange(block.columns)
    masked_RC = (columns_C < torch.from_numpy(starts_R)[:, None]) | (columns_C >= length)
    heads = block.keys[0].shape[1]
    return Cohort(
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


def choose_merge(cohorts: Sequence[Cohort]) -> tuple[int, int]:
    """Indices of the two cohorts whose merge adds the fewest padded columns."""
    order = sorted(range(len(cohorts)), key=lambda place: cohorts[place].used_columns)

    def padding(pair: tuple[int, int]) -> int:
        shorter, longer = (cohorts[place] for place in pair)
        return shorter.size * (longer.used_columns - shorter.used_columns)

    return min(pairwise(order), key=padding)
