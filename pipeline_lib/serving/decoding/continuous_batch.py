"""Rows that are decoded together, where each may join and leave at any step.

This is the scheduler of the embedded engine. It knows token ids only: no text, no requests, no
stop strings. A prompt is computed once for all rows that were added with it, rows that have ended
leave at once, and waiting ones take their place. What a row draws follows from its prompt, seed
and decoding alone, up to rounding.

Axes: B rows that are being decoded, cohort by cohort; V vocabulary.
"""

import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice, pairwise
from typing import Any

import numpy as np
import torch

from pipeline_lib.serving.decoding.cohorts import Cohort, cheapest_merge, cohort_of, gathered
from pipeline_lib.serving.decoding.decode_pass import PLAIN, DecodePass, decode_pass_of
from pipeline_lib.serving.decoding.kv_blocks import KvPool
from pipeline_lib.serving.decoding.prefill import PromptReader
from pipeline_lib.serving.decoding.sequence_table import Drawn, RowRequest, RowTable

__all__ = ["ContinuousBatch", "Drawn", "RowRequest"]

_JOINING_SHARE = 4
"""Rows join once a quarter of the places is free (or all of them find one): fewer, larger passes."""
_COHORT_ROWS = 16
"""A cohort has as many rows at least, if so many join."""


@dataclass(kw_only=True)
class ContinuousBatch:
    """A batch whose rows join and leave while it runs.

    One thread calls `step`; `add` and `cancel` may be called from any thread, also during a step.
    While rows are in it, the model's weights must stay as they are.
    """

    model: Any
    max_rows: int
    """Rows that are decoded together at most; more wait for a place."""
    eos_ids: Collection[int]
    pad_id: int
    pool: KvPool = field(default_factory=KvPool)
    """Batches of one model, one after another or at once, may share it."""
    _waiting: deque[RowRequest] = field(init=False, default_factory=deque)
    _present: set[int] = field(init=False, default_factory=set)
    """Rows that wait or are decoded."""
    _cancelled: set[int] = field(init=False, default_factory=set)
    """Rows to be dropped before the next step."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Guards the three above."""
    _table: RowTable = field(init=False)
    _cohorts: list[Cohort] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._table = RowTable(self.max_rows, self.eos_ids)

    @cached_property
    def _decode(self) -> DecodePass:
        return decode_pass_of(self.model)

    @cached_property
    def _reader(self) -> PromptReader:
        shares = self._decode is PLAIN
        return PromptReader(model=self.model, pad_id=self.pad_id, shares_beginnings=shares)

    def add(self, rows: Sequence[RowRequest]) -> None:
        """Queue rows. Among those of one call, long prompts come first.

        Raises:
            ValueError: a prompt has no token, no token is wanted, or an id is there already.
        """
        for row in rows:
            if not row.prompt_ids or row.decoding.max_new_tokens < 1:
                raise ValueError(
                    f"row {row.id}: {len(row.prompt_ids)} prompt tokens, "
                    f"max_new_tokens={row.decoding.max_new_tokens}; both must be 1 or more"
                )
        ordered = sorted(rows, key=lambda row: (-len(row.prompt_ids), tuple(row.prompt_ids)))
        with self._lock:
            ids = Counter(row.id for row in ordered)
            if twice := [i for i, count in ids.items() if count > 1 or i in self._present]:
                raise ValueError(f"rows {twice[:3]}: there is one of that id already")
            self._present.update(ids)
            self._waiting.extend(ordered)

    def cancel(self, row_id: int) -> None:
        """Forget a row, waiting or running; one that is not there (any more) is no error.

        A step that runs at the moment may still give one more token of it.
        """
        with self._lock:
            if row_id not in self._present:
                return
            self._present.remove(row_id)
            still = deque(row for row in self._waiting if row.id != row_id)
            if len(still) == len(self._waiting):
                self._cancelled.add(row_id)
            self._waiting = still

    def abandon(self) -> None:
        """Forget all rows after a step that raised; the batch can be used again."""
        with self._lock:
            self._waiting.clear()
            self._present.clear()
            self._cancelled.clear()
        for cohort in self._cohorts:
            self.pool.give(cohort.block)
        self._cohorts = []
        self._table = RowTable(self.max_rows, self.eos_ids)
        self._reader.forget()

    @property
    def idle(self) -> bool:
        """Whether nothing is decoded and nothing waits."""
        with self._lock:
            return not self._waiting and not self._cohorts

    @torch.inference_mode()
    def step(self) -> list[Drawn]:
        """Let waiting rows in, then draw one token for every row that is decoded."""
        self._drop_cancelled()
        joining, following = self._next_rows()
        logits = [self._advanced()] if self._cohorts else []
        parts = [*_parts(joining, max(_COHORT_ROWS, self._joining_rows)), following]
        logits += [self._joined(part, after) for part, after in pairwise(parts)]
        if not logits:
            return []
        drawn, ended_B = self._table.draw(self._slots(), torch.cat(logits))
        self._leave(ended_B)
        with self._lock:
            self._present -= {one.id for one in drawn if one.finished}
        if self.idle:
            self._reader.forget()
        return drawn

    @property
    def _joining_rows(self) -> int:
        return -(-self.max_rows // _JOINING_SHARE)

    def _slots(self) -> np.ndarray:
        return np.concatenate([cohort.slots_R for cohort in self._cohorts])

    def _drop_cancelled(self) -> None:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
        slots = [self._table.slot(row_id) for row_id in cancelled]
        if running := [slot for slot in slots if slot is not None]:
            self._leave(np.isin(self._slots(), running))

    def _next_rows(self) -> tuple[list[RowRequest], list[RowRequest]]:
        """The rows that join now, and the one that will stand first in the queue then."""
        with self._lock:
            count = min(self._table.free, len(self._waiting))
            if count < min(self._joining_rows, len(self._waiting)):
                return [], []
            joining = [self._waiting.popleft() for _ in range(count)]
            return joining, list(islice(self._waiting, 1))

    def _joined(self, rows: Sequence[RowRequest], after: Sequence[RowRequest]) -> torch.Tensor:
        """Make a cohort of rows, whose prompts are computed now: logits [B, V] of their first tokens."""
        states, cached = self._reader.read(
            [tuple(row.prompt_ids) for row in rows],
            following=tuple(after[0].prompt_ids) if after else None,
        )
        slots = [
            self._table.seat(row, cached_tokens=known)
            for row, known in zip(rows, cached, strict=True)
        ]
        self._cohorts.append(cohort_of(states, np.array(slots), self.pool))
        return torch.stack([state.logits_V for state in states])

    def _advanced(self) -> torch.Tensor:
        """One step of the model on the newest tokens: logits [B, V]."""
        while len(self._cohorts) > self._decode.most_cohorts:
            pair = cheapest_merge(self._cohorts)
            merged = gathered([self._cohorts[place] for place in pair], self.pool)
            self._cohorts = [c for i, c in enumerate(self._cohorts) if i not in pair]
            self._cohorts.append(merged)
        for place, cohort in enumerate(self._cohorts):
            if cohort.full:
                self._cohorts[place] = gathered([cohort], self.pool)
        slots_B = self._slots()
        tokens_B, positions_B = (
            torch.from_numpy(values_S[slots_B]).to(self.model.device)
            for values_S in (self._table.last_S, self._table.positions_S)
        )
        logits_BV = self._decode.run(self.model, self._cohorts, tokens_B, positions_B)
        for cohort in self._cohorts:
            cohort.length += 1
        return logits_BV

    def _leave(self, gone_B: np.ndarray) -> None:
        """Let rows go, and cohorts that have none left."""
        if not gone_B.any():
            return
        self._table.leave(self._slots()[gone_B])
        bounds = np.cumsum([cohort.size for cohort in self._cohorts])[:-1]
        staying = []
        for cohort, gone_R in zip(self._cohorts, np.split(gone_B, bounds), strict=True):
            if gone_R.all():
                self.pool.give(cohort.block)
                continue
            if gone_R.any():
                cohort.drop(gone_R)
            staying.append(cohort)
        self._cohorts = staying


def _parts(rows: Sequence[RowRequest], most: int) -> Iterator[list[RowRequest]]:
    """Rows for one cohort each; those of one prompt stay together."""
    part: list[RowRequest] = []
    for _, same in groupby(rows, key=lambda row: tuple(row.prompt_ids)):
        group = list(same)
        if part and len(part) + len(group) > most:
            yield part
            part = []
        part += group
    if part:
        yield part
