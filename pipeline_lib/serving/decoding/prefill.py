"""The pass over prompts: each distinct one is computed once, and copied to all of its rows.

Axes: N tensors of one shape (keys and values of all layers), P prompts, H key-value heads,
L positions, D channels, V vocabulary, R rows, C columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from pipeline_lib.serving.decoding.kv_blocks import KvBlock, KvShape

Tokens = tuple[int, ...]

_PASS_TOKENS = 8192
"""Positions of one pass: more do not make it faster, but take memory."""
_SHARED_AT_LEAST = 16
"""Shorter common beginnings are not worth a pass of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptState:
    """What decoding goes on from."""

    tokens: Tokens
    beginning: "PromptState | None"
    """What the prompt shares with others; ``slabs`` hold only what follows it."""
    slabs: tuple[torch.Tensor, ...]
    """[N, H, L, D], as the slabs of a block are grouped."""
    shape: KvShape
    logits_V: torch.Tensor

    def write(self, block: KvBlock, rows: slice, *, end: int) -> None:
        """Copy the prompt to ``rows`` of ``block``, so that its last position is ``end - 1``."""
        for mine, theirs in zip(self.slabs, block.slabs, strict=True):
            theirs[:, rows, :, end - mine.shape[2] : end] = mine[:, None]
        if self.beginning is not None:
            self.beginning.write(block, rows, end=end - self.slabs[0].shape[2])

    def kept(self) -> "PromptState":
        """The same in memory of its own, without that of the prompts it was computed with."""
        return PromptState(
            tokens=self.tokens,
            beginning=self.beginning,
            slabs=tuple(slab.clone() for slab in self.slabs),
            shape=self.shape,
            logits_V=self.logits_V.clone(),
        )


@dataclass(kw_only=True)
class PromptReader:
    """Computes prompts, and keeps what the next ones may start from."""

    model: Any
    pad_id: int
    shares_beginnings: bool
    """Whether several prompts may start from one state of what they have in common."""
    _beginning: PromptState | None = field(init=False, default=None)
    _last: PromptState | None = field(init=False, default=None)

    def forget(self) -> None:
        """Keep nothing: the model may change now."""
        self._beginning = self._last = None

    def read(
        self, prompts: Sequence[Tokens], *, following: Tokens | None
    ) -> tuple[list[PromptState], list[int]]:
        """The state of each prompt, and how many of its tokens had been computed before.

        A prompt that comes up again is computed once; ``following`` is the one that will be asked
        for next.
        """
        states = {} if self._last is None else {self._last.tokens: self._last}
        known = {tokens: len(tokens) for tokens in states}
        missing = [tokens for tokens in dict.fromkeys(prompts) if tokens not in states]
        shared, fresh = self._shared_by(missing)
        for state in computed(self.model, missing, pad_id=self.pad_id, beginning=shared):
            states[state.tokens] = state
        cached = []
        for tokens in prompts:
            is_first = fresh and tokens == missing[0]
            start = 0 if shared is None or is_first else len(shared.tokens)
            cached.append(known.setdefault(tokens, start))
            known[tokens] = len(tokens)
        last = states.get(following) if following is not None else None
        self._last = last and last.kept()
        return [states[tokens] for tokens in prompts], cached

    def _shared_by(self, prompts: Sequence[Tokens]) -> tuple[PromptState | None, bool]:
        """What prompts have in common, if it is worth it, and whether it was computed just now."""
        if not self.shares_beginnings or not prompts:
            return None, False
        common = common_beginning(prompts)
        kept = self._beginning
        if kept is not None and len(common) < 2 * len(kept.tokens):
            size = len(kept.tokens)
            if all(tokens[:size] == kept.tokens and len(tokens) > size for tokens in prompts):
                return kept, False
        if not common:
            return None, False
        [state] = computed(self.model, [common], pad_id=self.pad_id)
        self._beginning = state.kept()
        return self._beginning, True


def common_beginning(prompts: Sequence[Tokens]) -> Tokens:
    """What all of several distinct prompts begin with, where that is worth sharing; else nothing."""
    if len(prompts) < 2:
        return ()
    low, high = min(prompts), max(prompts)
    # At least one token of each prompt is left: its logits are needed.
    most = min(map(len, prompts)) - 1
    length = next((i for i in range(most) if low[i] != high[i]), most)
    return low[:length] if length >= _SHARED_AT_LEAST else ()


def computed(
    model: Any, prompts: Sequence[Tokens], *, pad_id: int, beginning: PromptState | None = None
) -> Iterator[PromptState]:
    """The states of prompts, in order; prompts of like length should stand together.

    ``beginning`` is one that all of them share.
    """
    for chunk in _chunks(prompts):
        yield from _one_pass(model, chunk, pad_id=pad_id, beginning=beginning)


def _chunks(prompts: Sequence[Tokens]) -> Iterator[Sequence[Tokens]]:
    start = longest = 0
    for place, prompt in enumerate(prompts):
        longest = max(longest, len(prompt))
        if place > start and longest * (place + 1 - start) > _PASS_TOKENS:
            yield prompts[start:place]
            start, longest = place, len(prompt)
    if prompts:
        yield prompts[start:]


def _one_pass(
    model: Any, prompts: Sequence[Tokens], *, pad_id: int, beginning: PromptState | None
) -> Iterator[PromptState]:
    shared = len(beginning.tokens) if beginning is not None else 0
    rests = [prompt[shared:] for prompt in prompts]
    length = max(map(len, rests))
    ids_PL = torch.tensor([(pad_id,) * (length - len(rest)) + rest for rest in rests])
    own_PL = torch.tensor([[0] * (length - len(rest)) + [1] * len(rest) for rest in rests])
    mask_PL = torch.cat([own_PL.new_ones(len(prompts), shared), own_PL], dim=1)
    cache: Any = DynamicCache()
    if beginning is not None:
        _put(cache, beginning, len(prompts))
    output = model(
        input_ids=ids_PL.to(model.device),
        attention_mask=mask_PL.to(model.device),
        position_ids=(shared + own_PL.cumsum(-1) - 1).clamp(min=0).to(model.device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    tensors = [x[:, :, shared:] for layer in cache.layers for x in (layer.keys, layer.values)]
    shape = KvShape(
        tensors=tuple((x.shape[1], x.shape[3]) for x in tensors),
        dtype=tensors[0].dtype,
        device=tensors[0].device,
    )
    slabs = [
        torch.stack([x for x in tensors if (x.shape[1], x.shape[3]) == size])
        for size in dict.fromkeys(shape.tensors)
    ]
    for p, (prompt, rest) in enumerate(zip(prompts, rests, strict=True)):
        yield PromptState(
            tokens=prompt,
            beginning=beginning,
            slabs=tuple(slab[:, p, :, length - len(rest) :] for slab in slabs),
            shape=shape,
            logits_V=output.logits[p, -1].float(),
        )


def _put(cache: DynamicCache, beginning: PromptState, rows: int) -> None:
    """Fill an empty cache with what all prompts share."""
    slabs = dict(zip(dict.fromkeys(beginning.shape.tensors), beginning.slabs, strict=True))
    layers = {size: iter(slab) for size, slab in slabs.items()}
    views = [next(layers[size]).expand(rows, -1, -1, -1) for size in beginning.shape.tensors]
    for layer, (keys, values) in enumerate(zip(views[0::2], views[1::2], strict=True)):
        cache.update(keys, values, layer)
