"""Continuous batching: sequences join and leave a running batch between two steps.

The scheduler of the embedded engine, on token ids alone. Sequences with equal prompts share one
prefill, finished ones leave at once, and waiting ones take their slots. The tokens of a sequence
follow from its prompt, seed and decoding alone, up to rounding.

Axes: S slots; B sequences being decoded, in the order of sub-batches; R rows of a sub-batch; V vocabulary.
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

from pipeline_lib.engines.embedded.decode_pass import SUB_BATCH_PASS, DecodePass, choose_decode_pass
from pipeline_lib.engines.embedded.kv_blocks import KvPool
from pipeline_lib.engines.embedded.prefill import Prefiller
from pipeline_lib.engines.embedded.sequence_table import DrawnToken, SequenceRequest, SequenceTable
from pipeline_lib.engines.embedded.sub_batches import (
    SubBatch,
    choose_merge,
    make_sub_batch,
    merge_sub_batches,
)

__all__ = ["ContinuousBatch", "DrawnToken", "SequenceRequest"]

_ADMISSION_PARTS = 4
"""Sequences join once a quarter of the slots is free, or all of them fit: fewer, larger prefills."""
_MIN_SUB_BATCH_LIMIT = 16
"""Lower bound of the maximum sub-batch size, which is otherwise a quarter of the slots."""


@dataclass(kw_only=True)
class ContinuousBatch:
    """A batch whose sequences join and leave while it runs.

    One thread calls `step`; `add` and `cancel` may be called from any thread, also during a step.
    While sequences are in it, the model's weights must not change.
    """

    model: Any
    max_sequences: int
    """Sequences decoded together; more wait for a slot."""
    eos_ids: Collection[int]
    pad_id: int
    pool: KvPool = field(default_factory=KvPool)
    """May be shared by batches of one model, also at the same time."""
    _waiting: deque[SequenceRequest] = field(init=False, default_factory=deque)
    _ids: set[int] = field(init=False, default_factory=set)
    """Of waiting and running sequences."""
    _cancelled: set[int] = field(init=False, default_factory=set)
    """Ids to be dropped before the next step."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Guards the three above."""
    _table: SequenceTable = field(init=False)
    _sub_batches: list[SubBatch] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._table = SequenceTable(self.max_sequences, self.eos_ids)

    @cached_property
    def _decode(self) -> DecodePass:
        return choose_decode_pass(self.model)

    @cached_property
    def _prefiller(self) -> Prefiller:
        # The padded pass also serves sliding-window caches, which do not keep a whole prefix.
        shares_prefix = self._decode is SUB_BATCH_PASS
        return Prefiller(model=self.model, pad_id=self.pad_id, shares_prefix=shares_prefix)

    def add(self, requests: Sequence[SequenceRequest]) -> None:
        """Queue sequences. Those of one call join in descending order of prompt length.

        Raises:
            ValueError: no prompt token, ``max_new_tokens`` below 1, or an id that is in use.
        """
        for request in requests:
            if not request.prompt_ids or request.decoding.max_new_tokens < 1:
                raise ValueError(
                    f"sequence {request.id}: {len(request.prompt_ids)} prompt tokens, "
                    f"max_new_tokens={request.decoding.max_new_tokens}; both must be 1 or more"
                )
        ordered = sorted(requests, key=lambda one: (-len(one.prompt_ids), tuple(one.prompt_ids)))
        with self._lock:
            ids = Counter(request.id for request in ordered)
            if used := [i for i, count in ids.items() if count > 1 or i in self._ids]:
                raise ValueError(f"sequences {used[:3]}: these ids are in use; choose others")
            self._ids.update(ids)
            self._waiting.extend(ordered)

    def cancel(self, sequence_id: int) -> None:
        """Drop a waiting or running sequence. Unknown ids are ignored.

        A step that is running may still return one more token of it.
        """
        with self._lock:
            if sequence_id not in self._ids:
                return
            self._ids.remove(sequence_id)
            others = deque(one for one in self._waiting if one.id != sequence_id)
            if len(others) == len(self._waiting):
                self._cancelled.add(sequence_id)
            self._waiting = others

    def reset(self) -> None:
        """Drop all sequences after a step that raised; the batch can then be used again."""
        with self._lock:
            self._waiting.clear()
            self._ids.clear()
            self._cancelled.clear()
        for sub_batch in self._sub_batches:
            self.pool.release(sub_batch.block)
        self._sub_batches = []
        self._table = SequenceTable(self.max_sequences, self.eos_ids)
        self._prefiller.clear()

    @property
    def idle(self) -> bool:
        """True if no sequence runs or waits."""
        with self._lock:
            return not self._waiting and not self._sub_batches

    @torch.inference_mode()
    def step(self) -> list[DrawnToken]:
        """Admit waiting sequences, then draw one token for every running one."""
        self._drop_cancelled()
        joining, following = self._admit()
        logits = [self._decode_sub_batches()] if self._sub_batches else []
        parts = [*_split(joining, max(_MIN_SUB_BATCH_LIMIT, self._min_admission)), following]
        # Each part with the one after it, whose first prompt may share the prefill of the part.
        logits += [self._prefill_sub_batch(part, after) for part, after in pairwise(parts)]
        if not logits:
            return []
        # The logits are in the order of the sub-batches: decoded ones, then new ones as appended.
        drawn, ended_B = self._table.draw(self._slots(), torch.cat(logits))
        self._release(ended_B)
        with self._lock:
            self._ids -= {one.id for one in drawn if one.finished}
        if self.idle:
            self._prefiller.clear()
        return drawn

    @property
    def _min_admission(self) -> int:
        return -(-self.max_sequences // _ADMISSION_PARTS)

    def _slots(self) -> np.ndarray:
        return np.concatenate([sub_batch.slots_R for sub_batch in self._sub_batches])

    def _drop_cancelled(self) -> None:
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
        slots = [self._table.slot(sequence_id) for sequence_id in cancelled]
        if running := [slot for slot in slots if slot is not None]:
            self._release(np.isin(self._slots(), running))

    def _admit(self) -> tuple[list[SequenceRequest], list[SequenceRequest]]:
        """The sequences that join now, and the first of those left in the queue, if any."""
        with self._lock:
            count = min(self._table.num_free, len(self._waiting))
            if count < min(self._min_admission, len(self._waiting)):
                return [], []
            joining = [self._waiting.popleft() for _ in range(count)]
            return joining, list(islice(self._waiting, 1))

    def _prefill_sub_batch(
        self, joining: Sequence[SequenceRequest], after: Sequence[SequenceRequest]
    ) -> torch.Tensor:
        """Add a sub-batch of new sequences; returns the logits [R, V] of their first tokens."""
        states, cached = self._prefiller.prefill(
            [tuple(request.prompt_ids) for request in joining],
            next_prompt=tuple(after[0].prompt_ids) if after else None,
        )
        slots = [
            self._table.assign(request, cached_tokens=known)
            for request, known in zip(joining, cached, strict=True)
        ]
        self._sub_batches.append(make_sub_batch(states, np.array(slots), self.pool))
        return torch.stack([state.logits_V for state in states])

    def _decode_sub_batches(self) -> torch.Tensor:
        """One forward pass over the newest tokens: logits [B, V]."""
        while len(self._sub_batches) > self._decode.max_sub_batches:
            pair = choose_merge(self._sub_batches)
            merged = merge_sub_batches([self._sub_batches[place] for place in pair], self.pool)
            self._sub_batches = [c for i, c in enumerate(self._sub_batches) if i not in pair]
            self._sub_batches.append(merged)
        for place, sub_batch in enumerate(self._sub_batches):
            if sub_batch.is_full:
                self._sub_batches[place] = merge_sub_batches([sub_batch], self.pool)
        slots_B = self._slots()
        tokens_B, positions_B = (
            torch.from_numpy(values_S[slots_B]).to(self.model.device)
            for values_S in (self._table.last_S, self._table.positions_S)
        )
        logits_BV = self._decode.run(self.model, self._sub_batches, tokens_B, positions_B)
        for sub_batch in self._sub_batches:
            sub_batch.length += 1
        return logits_BV

    def _release(self, ended_B: np.ndarray) -> None:
        """Drop sequences, and sub-batches that become empty."""
        if not ended_B.any():
            return
        self._table.release(self._slots()[ended_B])
        bounds = np.cumsum([sub_batch.size for sub_batch in self._sub_batches])[:-1]
        remaining = []
        for sub_batch, ended_R in zip(self._sub_batches, np.split(ended_B, bounds), strict=True):
            if ended_R.all():
                self.pool.release(sub_batch.block)
                continue
            if ended_R.any():
                sub_batch.drop(ended_R)
            remaining.append(sub_batch)
        self._sub_batches = remaining


def _split(requests: Sequence[SequenceRequest], most: int) -> Iterator[list[SequenceRequest]]:
    """The sequences of one sub-batch each, at most ``most`` unless they share a prompt."""
    part: list[SequenceRequest] = []
    for _, same in groupby(requests, key=lambda request: tuple(request.prompt_ids)):
        group = list(same)
        if part and len(part) + len(group) > most:
            yield part
            part = []
        part += group
    if part:
        yield part
