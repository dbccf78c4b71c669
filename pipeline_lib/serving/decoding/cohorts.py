"""Rows of about one age, decoded in step: their newest tokens share a column of one block.

Rows that joined together differ in length by their prompts alone, so attention over them reads a
rectangle with little waste, however long older rows of the batch have grown.

Axes: N tensors of one shape, R rows of a cohort, H key-value heads, C columns (positions).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import torch

from pipeline_lib.serving.decoding.kv_blocks import KvBlock, KvPool
from pipeline_lib.serving.decoding.prefill import PromptState


@dataclass(slots=True, kw_only=True)
class Cohort:
    """Row r of the block belongs to ``slots_R[r]`` and uses columns ``starts_R[r]`` to ``length``.

    The block may have more rows than that; they have left.
    """

    slots_R: np.ndarray
    starts_R: np.ndarray
    length: int
    block: KvBlock
    hidden_RHC: torch.Tensor
    """What is added to attention scores: 0 where a row has written, minus infinity elsewhere."""

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.slots_R)

    @property
    def used(self) -> int:
        """Columns from the first that any row uses to the newest."""
        return self.length - int(self.starts_R.min())

    @property
    def full(self) -> bool:
        """Whether there is no column for one more token."""
        return self.length == self.block.columns

    def drop(self, gone_R: np.ndarray) -> None:
        """Let the rows that ``gone_R`` marks go; rows from the end take their places."""
        left = self.size - int(gone_R.sum())
        holes = np.flatnonzero(gone_R[:left])
        movers = left + np.flatnonzero(~gone_R[left:])
        for hole, mover in zip(holes.tolist(), movers.tolist(), strict=True):
            columns = slice(int(self.starts_R[mover]), self.length)
            for slab in self.block.slabs:
                slab[:, hole, :, columns] = slab[:, mover, :, columns]
            self.hidden_RHC[hole] = self.hidden_RHC[mover]
        for per_row in (self.slots_R, self.starts_R):
            per_row[holes] = per_row[movers]
        self.slots_R, self.starts_R = self.slots_R[:left], self.starts_R[:left]


def cohort_of(states: Sequence[PromptState], slots_R: np.ndarray, pool: KvPool) -> Cohort:
    """A cohort of rows that start from prompts: row r has slot ``slots_R[r]`` and ``states[r]``."""
    lengths_R = np.array([len(state.tokens) for state in states])
    length = int(lengths_R.max())
    block = pool.take(states[0].shape, rows=len(states), columns=length + _room(length))
    row = 0
    for _, same in groupby(states, key=id):
        count = len(list(same))
        states[row].write(block, slice(row, row + count), end=length)
        row += count
    return _cohort(block, slots_R, length - lengths_R, length)


def gathered(cohorts: Sequence[Cohort], pool: KvPool) -> Cohort:
    """One cohort of all rows, in order, with room for new tokens; the old blocks go back."""
    length = max(cohort.used for cohort in cohorts)
    rows = sum(cohort.size for cohort in cohorts)
    block = pool.take(cohorts[0].block.shape, rows=rows, columns=length + _room(length))
    row = 0
    starts = []
    for cohort in cohorts:
        used, size = cohort.used, cohort.size
        for mine, theirs in zip(cohort.block.slabs, block.slabs, strict=True):
            theirs[:, row : row + size, :, length - used : length] = mine[
                :, :size, :, cohort.length - used : cohort.length
            ]
        starts.append(cohort.starts_R + (length - cohort.length))
        row += size
        pool.give(cohort.block)
    slots_R = np.concatenate([cohort.slots_R for cohort in cohorts])
    return _cohort(block, slots_R, np.concatenate(starts), length)


def _cohort(block: KvBlock, slots_R: np.ndarray, starts_R: np.ndarray, length: int) -> Cohort:
    columns_C = torch.arange(block.columns)
    hidden_RC = (columns_C < torch.from_numpy(starts_R)[:, None]) | (columns_C >= length)
    heads = block.keys[0].shape[1]
    return Cohort(
        slots_R=slots_R,
        starts_R=starts_R,
        length=length,
        block=block,
        hidden_RHC=torch.zeros(hidden_RC.shape, dtype=block.shape.dtype)
        .masked_fill_(hidden_RC, -torch.inf)
        .to(block.shape.device)[:, None]
        .repeat(1, heads, 1),
    )


def _room(length: int) -> int:
    """Columns for new tokens: reading empty ones and moving to the next block cost about the same."""
    return 8 + math.isqrt(4 * length)


def cheapest_merge(cohorts: Sequence[Cohort]) -> tuple[int, int]:
    """The places of the two cohorts that waste the fewest columns when they become one."""
    order = sorted(range(len(cohorts)), key=lambda place: cohorts[place].used)

    def wasted(pair: tuple[int, int]) -> int:
        shorter, longer = (cohorts[place] for place in pair)
        return shorter.size * (longer.used - shorter.used)

    return min(pairwise(order), key=wasted)
