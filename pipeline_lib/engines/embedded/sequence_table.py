"""State of the sequences being decoded, as arrays, and the draw of their next tokens: a step handles all at once.

Axes: S slots, B sequences of a step, U buffered uniform numbers, V vocabulary, K most likely tokens.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from pipeline_lib.determinism import allow_nondeterministic_cumsum
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.records import FinishReason

_CHUNK_NUMBERS = 1 << 22
"""Float64 numbers of one chunk of logits: 32 MiB."""
_NUCLEUS_FIRST_K = 128
"""The nucleus is sought among these most likely tokens first; sorting a vocabulary is slow."""


def sample_tokens(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> torch.Tensor:
    """Token ids [B] by inversion of the distribution, from one uniform number in [0, 1) for each sequence.

    Temperature 0 takes the most likely token. Top-p keeps the smallest set of most likely tokens
    whose mass reaches p, the one that crosses p included.

    Source: Holtzman et al. 2020, arXiv:1904.09751 (nucleus sampling).
    """
    if decoding.temperature == 0:
        return logits_BV.argmax(-1)
    # Float64: a cumulative sum over a large vocabulary in float32 shifts rare tokens.
    scaled_BV = logits_BV.to(torch.float64, copy=True)
    if decoding.temperature != 1:
        scaled_BV /= decoding.temperature
    weights_BV = scaled_BV.sub_(scaled_BV.amax(-1, keepdim=True)).exp_()
    if decoding.top_p < 1:
        weights_BV = _truncate_to_nucleus(weights_BV, decoding.top_p)
    with allow_nondeterministic_cumsum():
        cumulative_BV = weights_BV.cumsum_(-1)
    points_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    # right=True finds the first token whose cumulative mass exceeds the point: never one of mass 0.
    tokens_B = torch.searchsorted(cumulative_BV, points_B1, right=True)[:, 0]
    return tokens_B.clamp(max=logits_BV.shape[-1] - 1)


def sample_with_logprobs(
    logits_BV: torch.Tensor, uniforms_B: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [B], and their natural-log probabilities [B] before temperature and top-p."""
    chunk = max(1, _CHUNK_NUMBERS // logits_BV.shape[-1])
    tokens, logprobs = [], []
    for logits, uniforms in zip(
        torch.split(logits_BV, chunk), torch.split(uniforms_B, chunk), strict=True
    ):
        tokens.append(sample_tokens(logits, uniforms, decoding))
        selected = logits.gather(-1, tokens[-1][:, None])[:, 0]
        logprobs.append(selected.double() - logits.logsumexp(-1))
    return torch.cat(tokens), torch.cat(logprobs)


def _truncate_to_nucleus(weights_BV: torch.Tensor, top_p: float) -> torch.Tensor:
    """The weights with 0 for every token outside the nucleus; ties keep the lower token ids."""
    total_B1 = weights_BV.sum(-1, keepdim=True)
    count = min(_NUCLEUS_FIRST_K, weights_BV.shape[-1])
    likely_BK = weights_BV.topk(count).values
    if (likely_BK.sum(-1, keepdim=True) < top_p * total_B1).any():
        likely_BK = weights_BV.sort(descending=True).values
    with allow_nondeterministic_cumsum():
        reached_BK = likely_BK.cumsum(-1)
    before_BK = reached_BK - likely_BK
    # At least 1: with NaN in the logits no comparison holds.
    size_B1 = (before_BK < top_p * total_B1).sum(-1, keepdim=True).clamp(min=1)
    least_B1 = likely_BK.gather(-1, size_B1 - 1)
    kept_BV = weights_BV.masked_fill(weights_BV < least_B1, 0)
    # Of the tokens tied with the last one, only the number that the nucleus needs.
    tied_BV = weights_BV == least_B1
    wanted_B1 = size_B1 - (weights_BV > least_B1).sum(-1, keepdim=True)
    if (tied_BV.sum(-1, keepdim=True) > wanted_B1).any():
        kept_BV.masked_fill_(tied_BV & (tied_BV.cumsum(-1) > wanted_B1), 0)
    return kept_BV


_BUFFERED_UNIFORMS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRequest:
    """One completion to decode."""

    id: int
    """Chosen by the caller; unique within a batch."""
    prompt_ids: Sequence[int]
    """At least one token."""
    seed: int
    decoding: Decoding
    """Stop strings are left to the caller, since decoding works on token ids."""


class DrawnToken(NamedTuple):
    """One token of one sequence."""

    id: int
    """Of the sequence."""
    token: int
    logprob: float
    """Natural log, before temperature and top-p."""
    finished: FinishReason | None
    """None while the sequence continues."""
    cached_tokens: int = 0
    """With the first token: prompt tokens whose prefill was shared with other sequences."""


class SequenceTable:
    """State of up to ``size`` sequences; each has a slot."""

    def __init__(self, size: int, eos_ids: Collection[int]) -> None:
        self._eos_ids = np.array(sorted(eos_ids), dtype=np.int64)
        self._free = list(range(size))[::-1]
        self._slots: dict[int, int] = {}
        self._generators: list[np.random.Generator | None] = [None] * size
        self._uniforms_SU = np.zeros((size, _BUFFERED_UNIFORMS))
        self._ids_S, self._drawn_S, self._limits_S, self._cached_S = np.zeros((4, size), np.int64)
        self._temperatures_S, self._top_ps_S = np.zeros((2, size))
        self.last_S, self.positions_S = np.zeros((2, size), np.int64)
        """Newest token of each sequence, and its position (0 for the prompt's first token)."""

    @property
    def num_free(self) -> int:
        """Slots without a sequence."""
        return len(self._free)

    def slot(self, sequence_id: int) -> int | None:
        """Slot of a sequence, or None."""
        return self._slots.get(sequence_id)

    def assign(self, request: SequenceRequest, *, cached_tokens: int) -> int:
        """Put a sequence in a free slot and return the slot."""
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

    def release(self, slots_B: np.ndarray) -> None:
        """Free slots."""
        for slot in slots_B.tolist():
            del self._slots[int(self._ids_S[slot])]
            self._generators[slot] = None
            self._free.append(slot)

    def draw(
        self, slots_B: np.ndarray, logits_BV: torch.Tensor
    ) -> tuple[list[DrawnToken], np.ndarray]:
        """Draw the next token of each of ``slots_B``; also a mask [B] of the finished sequences."""
        uniforms_B = torch.from_numpy(self._next_uniforms(slots_B)).to(logits_BV.device)
        tokens_B = torch.empty(len(slots_B), dtype=torch.long, device=logits_BV.device)
        logprobs_B = torch.empty(len(slots_B), dtype=torch.double, device=logits_BV.device)
        for places, decoding in self._decoding_groups(slots_B):
            tokens_B[places], logprobs_B[places] = sample_with_logprobs(
                logits_BV[places], uniforms_B[places], decoding
            )
        ids_B = tokens_B.cpu().numpy()
        self.last_S[slots_B] = ids_B
        self.positions_S[slots_B] += 1
        first_B = self._drawn_S[slots_B] == 0
        self._drawn_S[slots_B] += 1
        stopped_B = np.isin(ids_B, self._eos_ids)
        ended_B = stopped_B | (self._drawn_S[slots_B] >= self._limits_S[slots_B])
        reasons: list[FinishReason | None] = [None] * len(slots_B)
        for place in np.flatnonzero(ended_B).tolist():
            reasons[place] = FinishReason.STOP if stopped_B[place] else FinishReason.LENGTH
        drawn = map(
            DrawnToken,
            self._ids_S[slots_B].tolist(),
            ids_B.tolist(),
            logprobs_B.tolist(),
            reasons,
            np.where(first_B, self._cached_S[slots_B], 0).tolist(),
        )
        return list(drawn), ended_B

    def _next_uniforms(self, slots_B: np.ndarray) -> np.ndarray:
        """The next number of each slot, in the order of ``default_rng(seed).random(n)``."""
        buffered_B = self._drawn_S[slots_B] % _BUFFERED_UNIFORMS
        for slot in slots_B[buffered_B == 0].tolist():
            generator = self._generators[slot]
            assert generator is not None
            generator.random(out=self._uniforms_SU[slot])
        uniforms_B: np.ndarray = self._uniforms_SU[slots_B, buffered_B]
        return uniforms_B

    def _decoding_groups(self, slots_B: np.ndarray) -> list[tuple[slice | np.ndarray, Decoding]]:
        """Places in ``slots_B`` by temperature and top-p; usually one group."""
        pairs_B2 = np.stack([self._temperatures_S[slots_B], self._top_ps_S[slots_B]], axis=1)
        if (pairs_B2 == pairs_B2[0]).all():
            return [(slice(None), _decoding_of(pairs_B2[0]))]
        distinct, group_B = np.unique(pairs_B2, axis=0, return_inverse=True)
        return [
            (np.flatnonzero(group_B == index), _decoding_of(pair))
            for index, pair in enumerate(distinct)
        ]


def _decoding_of(pair: np.ndarray) -> Decoding:
    temperature, top_p = pair.tolist()
    return Decoding(temperature=temperature, top_p=top_p)
