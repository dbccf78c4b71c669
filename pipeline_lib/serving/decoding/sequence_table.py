"""What is known of each row that is being decoded, in arrays: a step handles all rows at once.

Axes: S slots, B rows of a step, U uniform numbers that are held ready.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.serving.decoding.sampler import draw_tokens

_HELD_UNIFORMS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """One completion that is wanted."""

    id: int
    """The caller's; unique among the rows of a batch."""
    prompt_ids: Sequence[int]
    """At least one token."""
    seed: int
    decoding: Decoding
    """Its stop strings are the caller's business: text is not seen here."""


class Drawn(NamedTuple):
    """One token of one row."""

    id: int
    token: int
    logprob: float
    """Natural log, before temperature."""
    finished: FinishReason | None
    """None while the row goes on."""
    cached_tokens: int = 0
    """With the row's first token: how many tokens of its prompt had been computed for others."""


class RowTable:
    """State of up to ``size`` rows."""

    def __init__(self, size: int, eos_ids: Collection[int]) -> None:
        self._eos_ids = np.array(sorted(eos_ids), dtype=np.int64)
        self._free = list(range(size))[::-1]
        self._slots: dict[int, int] = {}
        self._generators: list[np.random.Generator | None] = [None] * size
        self._uniforms_SU = np.zeros((size, _HELD_UNIFORMS))
        self._ids_S, self._drawn_S, self._limits_S, self._cached_S = np.zeros((4, size), np.int64)
        self._temperatures_S, self._top_ps_S = np.zeros((2, size))
        self.last_S, self.positions_S = np.zeros((2, size), np.int64)
        """The newest token of each row, and its place in the text, the prompt's first at 0."""

    @property
    def free(self) -> int:
        """Rows that there is still place for."""
        return len(self._free)

    def slot(self, row_id: int) -> int | None:
        """Where a row stands, if it does."""
        return self._slots.get(row_id)

    def seat(self, request: RowRequest, *, cached_tokens: int) -> int:
        """Give a row a slot."""
        slot = self._free.pop()
        self._slots[request.id] = slot
        self._generators[slot] = np.random.default_rng(request.seed)
        self._ids_S[slot] = request.id
        self._drawn_S[slot] = 0
        self._limits_S[slot] = request.decoding.max_new_tokens
        self._cached_S[slot] = cached_tokens
        self._temperatures_S[slot] = request.decoding.temperature
        self._top_ps_S[slot] = request.decoding.top_p
        self.positions_S[slot] = len(request.prompt_ids) - 1
        return slot

    def leave(self, slots_B: np.ndarray) -> None:
        """Free slots."""
        for slot in slots_B.tolist():
            del self._slots[int(self._ids_S[slot])]
            self._generators[slot] = None
            self._free.append(slot)

    def draw(self, slots_B: np.ndarray, logits_BV: torch.Tensor) -> tuple[list[Drawn], np.ndarray]:
        """One token for each of ``slots_B``, and which of these rows have ended."""
        uniforms_B = torch.from_numpy(self._next_uniforms(slots_B)).to(logits_BV.device)
        chosen_B = torch.empty(len(slots_B), dtype=torch.long, device=logits_BV.device)
        logprobs_B = torch.empty(len(slots_B), dtype=torch.double, device=logits_BV.device)
        for places, decoding in self._ways(slots_B):
            chosen_B[places], logprobs_B[places] = draw_tokens(
                logits_BV[places], uniforms_B[places], decoding
            )
        tokens_B = chosen_B.cpu().numpy()
        self.last_S[slots_B] = tokens_B
        self.positions_S[slots_B] += 1
        first_B = self._drawn_S[slots_B] == 0
        self._drawn_S[slots_B] += 1
        stopped_B = np.isin(tokens_B, self._eos_ids)
        ended_B = stopped_B | (self._drawn_S[slots_B] >= self._limits_S[slots_B])
        reasons: list[FinishReason | None] = [None] * len(slots_B)
        for place in np.flatnonzero(ended_B).tolist():
            reasons[place] = FinishReason.STOP if stopped_B[place] else FinishReason.LENGTH
        drawn = map(
            Drawn,
            self._ids_S[slots_B].tolist(),
            tokens_B.tolist(),
            logprobs_B.tolist(),
            reasons,
            np.where(first_B, self._cached_S[slots_B], 0).tolist(),
        )
        return list(drawn), ended_B

    def _next_uniforms(self, slots_B: np.ndarray) -> np.ndarray:
        """The next number of each row: those of ``default_rng(seed).random(n)``, one after another."""
        held_B = self._drawn_S[slots_B] % _HELD_UNIFORMS
        for slot in slots_B[held_B == 0].tolist():
            generator = self._generators[slot]
            assert generator is not None
            generator.random(out=self._uniforms_SU[slot])
        uniforms_B: np.ndarray = self._uniforms_SU[slots_B, held_B]
        return uniforms_B

    def _ways(self, slots_B: np.ndarray) -> list[tuple[slice | np.ndarray, Decoding]]:
        """Rows that are drawn in one way, each way once; mostly there is one."""
        pairs_B2 = np.stack([self._temperatures_S[slots_B], self._top_ps_S[slots_B]], axis=1)
        if (pairs_B2 == pairs_B2[0]).all():
            return [(slice(None), _way(pairs_B2[0]))]
        distinct, of_row_B = np.unique(pairs_B2, axis=0, return_inverse=True)
        return [
            (np.flatnonzero(of_row_B == index), _way(pair)) for index, pair in enumerate(distinct)
        ]


def _way(pair: np.ndarray) -> Decoding:
    temperature, top_p = pair.tolist()
    return Decoding(temperature=temperature, top_p=top_p)
