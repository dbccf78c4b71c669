"""Rows that are decoded together, where each may join and leave at any step.

This is the scheduler of the embedded engine. It knows token ids only: no text, no requests, no
stop strings. A prompt is computed once for all rows that were added with it, rows that have ended
leave at once, and waiting ones take their place. What a row draws follows from its prompt, seed
and decoding alone, up to rounding.

Axes: B rows that are being decoded, P prompts, L positions (rows are aligned at their ends, so the
newest token of every row stands in the last one), V vocabulary.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache

from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.token_choice import choose_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """One completion that is wanted: ``id`` is the caller's, and unique among the rows in a batch."""

    id: int
    prompt_ids: Sequence[int]
    """At least one token."""
    seed: int
    decoding: Decoding
    """Its stop strings are the caller's business: text is not seen here."""


class Drawn(NamedTuple):
    """One token of one row. ``finished`` is None while the row goes on."""

    id: int
    token: int
    logprob: float
    """Natural log, before temperature."""
    finished: FinishReason | None


@dataclass(slots=True)
class _Row:
    request: RowRequest
    uniforms: np.ndarray
    drawn: int = 0
    last: int = -1


@dataclass(slots=True)
class _Rows:
    """What is decoded now; row b of every tensor belongs to ``rows[b]``."""

    rows: list[_Row]
    cache: Any
    mask_BL: torch.Tensor
    logits_BV: torch.Tensor


@dataclass(kw_only=True)
class ContinuousBatch:
    """A batch whose rows join and leave while it runs.

    One thread calls `step`; `add` and `cancel` may be called from any thread, also during a step.
    """

    model: Any
    max_rows: int
    """Rows that are decoded together at most; more wait for a place."""
    eos_ids: Collection[int]
    pad_id: int
    _waiting: deque[RowRequest] = field(init=False, default_factory=deque)
    _cancelled: set[int] = field(init=False, default_factory=set)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _now: _Rows | None = field(init=False, default=None)

    def add(self, rows: Sequence[RowRequest]) -> None:
        """Queue rows. Among those of one call, long prompts come first.

        Raises:
            ValueError: a prompt has no token.
        """
        for row in rows:
            if not row.prompt_ids:
                raise ValueError(f"row {row.id}: its prompt has no token")
        ordered = sorted(rows, key=lambda row: (-len(row.prompt_ids), tuple(row.prompt_ids)))
        with self._lock:
            self._waiting.extend(ordered)

    def cancel(self, row_id: int) -> None:
        """Forget a row, waiting or running; one that is not there (any more) is no error.

        A step that runs at the moment may still give one more token of it.
        """
        with self._lock:
            self._cancelled.add(row_id)

    @property
    def idle(self) -> bool:
        """Whether nothing is decoded and nothing waits."""
        with self._lock:
            return not self._waiting and self._now is None

    @torch.inference_mode()
    def step(self) -> list[Drawn]:
        """Let waiting rows in, then draw one token for every row that is decoded."""
        with self._lock:
            cancelled, self._cancelled = self._cancelled, set()
            self._waiting = deque(row for row in self._waiting if row.id not in cancelled)
            free = self.max_rows - (len(self._now.rows) if self._now else 0)
            joining = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        self._keep(lambda row: row.request.id not in cancelled)
        if self._now is not None:
            self._advance(self._now)
        if joining:
            self._join(self._prefill(joining))
        if self._now is None:
            return []
        drawn = list(self._draw(self._now))
        ended = {one.id for one in drawn if one.finished}
        self._keep(lambda row: row.request.id not in ended)
        return drawn

    def _prefill(self, joining: Sequence[RowRequest]) -> _Rows:
        """Compute each distinct prompt once, then copy its cache to all of its rows."""
        place: dict[tuple[int, ...], int] = {}
        owner = [place.setdefault(tuple(row.prompt_ids), len(place)) for row in joining]
        length = max(len(prompt) for prompt in place)
        device = self.model.device
        ids_PL = torch.tensor(
            [[self.pad_id] * (length - len(prompt)) + list(prompt) for prompt in place]
        ).to(device)
        mask_PL = torch.tensor(
            [[0] * (length - len(prompt)) + [1] * len(prompt) for prompt in place]
        ).to(device)
        cache = DynamicCache()
        output = self.model(
            input_ids=ids_PL,
            attention_mask=mask_PL,
            position_ids=(mask_PL.cumsum(-1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        owner_B = torch.tensor(owner, device=device)
        cache.batch_select_indices(owner_B)
        return _Rows(
            rows=[
                _Row(
                    request=row,
                    uniforms=np.random.default_rng(row.seed).random(row.decoding.max_new_tokens),
                )
                for row in joining
            ],
            cache=cache,
            mask_BL=mask_PL[owner_B],
            logits_BV=output.logits[owner_B, -1].float(),
        )

    def _join(self, fresh: _Rows) -> None:
        """Put fresh rows under those that run, all aligned at their newest token."""
        if self._now is None:
            self._now = fresh
            return
        now = self._now
        length = max(now.mask_BL.shape[1], fresh.mask_BL.shape[1])
        for mine, theirs in zip(now.cache.layers, fresh.cache.layers, strict=True):
            mine.keys = torch.cat([_aligned(x.keys, length, dim=2) for x in (mine, theirs)])
            mine.values = torch.cat([_aligned(x.values, length, dim=2) for x in (mine, theirs)])
        now.mask_BL = torch.cat([_aligned(x.mask_BL, length, dim=1) for x in (now, fresh)])
        now.logits_BV = torch.cat([now.logits_BV, fresh.logits_BV])
        now.rows += fresh.rows

    def _advance(self, now: _Rows) -> None:
        """One step of the model on the tokens just drawn."""
        now.mask_BL = torch.cat([now.mask_BL, now.mask_BL.new_ones(len(now.rows), 1)], dim=1)
        last_B1 = torch.tensor([[row.last] for row in now.rows], device=now.mask_BL.device)
        output = self.model(
            input_ids=last_B1,
            attention_mask=now.mask_BL,
            position_ids=now.mask_BL.sum(-1, keepdim=True) - 1,
            past_key_values=now.cache,
            use_cache=True,
        )
        now.logits_BV = output.logits[:, -1].float()

    def _draw(self, now: _Rows) -> Iterator[Drawn]:
        uniforms_B = torch.tensor([row.uniforms[row.drawn] for row in now.rows]).to(
            now.logits_BV.device
        )
        chosen_B = torch.empty_like(uniforms_B, dtype=torch.long)
        for decoding in {row.request.decoding for row in now.rows}:
            places = [b for b, row in enumerate(now.rows) if row.request.decoding == decoding]
            chosen_B[places] = choose_tokens(now.logits_BV[places], uniforms_B[places], decoding)
        logprobs_B = now.logits_BV.log_softmax(-1).gather(-1, chosen_B[:, None])[:, 0]
        for row, token, logprob in zip(
            now.rows, chosen_B.tolist(), logprobs_B.tolist(), strict=True
        ):
            row.last = token
            row.drawn += 1
            finished = None
            if token in self.eos_ids:
                finished = FinishReason.STOP
            elif row.drawn == row.request.decoding.max_new_tokens:
                finished = FinishReason.LENGTH
            yield Drawn(row.request.id, token, logprob, finished)

    def _keep(self, stays: Callable[[_Row], bool]) -> None:
        """Drop the other rows, and the positions that none of the rest uses."""
        if self._now is None:
            return
        now = self._now
        places = [b for b, row in enumerate(now.rows) if stays(row)]
        if not places:
            self._now = None
        elif len(places) < len(now.rows):
            places_B = torch.tensor(places, device=now.mask_BL.device)
            now.rows = [now.rows[b] for b in places]
            now.logits_BV = now.logits_BV[places_B]
            mask_BL = now.mask_BL[places_B]
            start = int(mask_BL.any(0).int().argmax())
            now.mask_BL = mask_BL[:, start:]
            for layer in now.cache.layers:
                layer.keys = layer.keys[places_B, :, start:]
                layer.values = layer.values[places_B, :, start:]


def _aligned(values: torch.Tensor, length: int, *, dim: int) -> torch.Tensor:
    """Zeros before ``values``, so that ``dim`` has ``length`` places."""
    missing = length - values.shape[dim]
    after = 2 * (values.dim() - 1 - dim)
    return torch.nn.functional.pad(values, [0] * after + [missing, 0]) if missing else values
