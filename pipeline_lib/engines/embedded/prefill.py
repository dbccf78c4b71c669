"""Prefill: keys, values and next-token logits of prompts.

Each distinct prompt is computed once and copied to all of its sequences; a prefix that the prompts
of one call share is computed once as well.

Axes: N tensors of one shape (keys and values of all layers), P prompts, H key-value heads,
L positions, D channels, V vocabulary, R rows, C columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import DynamicCache

from pipeline_lib.engines.embedded.kv_blocks import KvBlock, KvShape

Tokens = tuple[int, ...]

_CHUNK_POSITIONS = 8192
"""Positions of one forward pass: more are no faster and take more memory."""
_MIN_PREFIX_TOKENS = 16
"""A shorter shared prefix is not worth a forward pass of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptState:
    """A computed prompt, from which decoding continues."""

    tokens: Tokens
    prefix: "PromptState | None"
    """Shared with other prompts; ``slabs`` hold only the positions after it."""
    slabs: tuple[torch.Tensor, ...]
    """[N, H, L, D], grouped as the slabs of a `KvBlock`."""
    shape: KvShape
    logits_V: torch.Tensor

    def write(self, block: KvBlock, rows: slice, *, end: int) -> None:
        """Copy the prompt to ``rows`` of ``block``; its last position becomes ``end - 1``."""
        for mine, theirs in zip(self.slabs, block.slabs, strict=True):
            theirs[:, rows, :, end - mine.shape[2] : end] = mine[:, None]
        if self.prefix is not None:
            self.prefix.write(block, rows, end=end - self.slabs[0].shape[2])

    def clone(self) -> "PromptState":
        """A copy that does not keep the memory of the whole forward pass alive."""
        slabs = tuple(slab.clone() for slab in self.slabs)
        return replace(self, slabs=slabs, logits_V=self.logits_V.clone())


@dataclass(kw_only=True)
class Prefiller:
    """Computes prompts; keeps the shared prefix and the last prompt for the next call."""

    model: Any
    pad_id: int
    shares_prefix: bool
    """Several prompts may continue from one state of their common prefix."""
    _prefix: PromptState | None = field(init=False, default=None)
    _last: PromptState | None = field(init=False, default=None)

    def clear(self) -> None:
        """Drop all states; required before the model changes."""
        self._prefix = self._last = None

    def prefill(
        self, prompts: Sequence[Tokens], *, next_prompt: Tokens | None
    ) -> tuple[list[PromptState], list[int]]:
        """The state of each prompt, and its number of tokens that were already computed.

        Equal prompts are computed once. ``next_prompt`` is the first prompt of the next call: its
        state is kept if it is among these.
        """
        states = {} if self._last is None else {self._last.tokens: self._last}
        known = {tokens: len(tokens) for tokens in states}
        missing = [tokens for tokens in dict.fromkeys(prompts) if tokens not in states]
        prefix, is_new = self._shared_prefix(missing)
        for state in prefill(self.model, missing, pad_id=self.pad_id, prefix=prefix):
            states[state.tokens] = state
        cached = []
        for tokens in prompts:
            is_first = is_new and tokens == missing[0]
            start = 0 if prefix is None or is_first else len(prefix.tokens)
            cached.append(known.setdefault(tokens, start))
            known[tokens] = len(tokens)
        last = states.get(next_prompt) if next_prompt is not None else None
        self._last = last and last.clone()
        return [states[tokens] for tokens in prompts], cached

    def _shared_prefix(self, prompts: Sequence[Tokens]) -> tuple[PromptState | None, bool]:
        """The common prefix if it is worth sharing, and whether this call computed it."""
        if not self.shares_prefix or not prompts:
            return None, False
        common = common_prefix(prompts)
        kept = self._prefix
        if kept is not None and len(common) < 2 * len(kept.tokens):
            size = len(kept.tokens)
            if all(tokens[:size] == kept.tokens and len(tokens) > size for tokens in prompts):
                return kept, False
        if not common:
            return None, False
        [state] = prefill(self.model, [common], pad_id=self.pad_id)
        self._prefix = state.clone()
        return self._prefix, True


def common_prefix(prompts: Sequence[Tokens]) -> Tokens:
    """The longest common prefix of several distinct prompts; empty if it is not worth sharing."""
    if len(prompts) < 2:
        return ()
    low, high = min(prompts), max(prompts)
    # At least one token of each prompt is left: its logits are needed.
    most = min(map(len, prompts)) - 1
    length = next((i for i in range(most) if low[i] != high[i]), most)
    return low[:length] if length >= _MIN_PREFIX_TOKENS else ()


def prefill(
    model: Any, prompts: Sequence[Tokens], *, pad_id: int, prefix: PromptState | None = None
) -> Iterator[PromptState]:
    """The states of prompts, in order. Adjacent prompts of similar length waste the least padding.

    Args:
        model: A causal language model of transformers.
        prompts: All begin with ``prefix`` and have at least one token more.
        pad_id: Any token id; padding is masked.
        prefix: A computed prefix of all prompts.
    """
    for chunk in _chunks(prompts):
        yield from _prefill_chunk(model, chunk, pad_id=pad_id, prefix=prefix)


def _chunks(prompts: Sequence[Tokens]) -> Iterator[Sequence[Tokens]]:
    start = longest = 0
    for place, prompt in enumerate(prompts):
        longest = max(longest, len(prompt))
        if place > start and longest * (place + 1 - start) > _CHUNK_POSITIONS:
            yield prompts[start:place]
            start, longest = place, len(prompt)
    if prompts:
        yield prompts[start:]


def _prefill_chunk(
    model: Any, prompts: Sequence[Tokens], *, pad_id: int, prefix: PromptState | None
) -> Iterator[PromptState]:
    shared = len(prefix.tokens) if prefix is not None else 0
    rests = [prompt[shared:] for prompt in prompts]
    length = max(map(len, rests))
    ids_PL = torch.tensor([(pad_id,) * (length - len(rest)) + rest for rest in rests])
    own_PL = torch.tensor([[0] * (length - len(rest)) + [1] * len(rest) for rest in rests])
    mask_PL = torch.cat([own_PL.new_ones(len(prompts), shared), own_PL], dim=1)
    cache: Any = DynamicCache()
    if prefix is not None:
        _fill_cache(cache, prefix, len(prompts))
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
            prefix=prefix,
            slabs=tuple(slab[:, p, :, length - len(rest) :] for slab in slabs),
            shape=shape,
            logits_V=output.logits[p, -1].float(),
        )


def _fill_cache(cache: DynamicCache, prefix: PromptState, rows: int) -> None:
    """Put the prefix into an empty cache, once per row."""
    slabs = dict(zip(dict.fromkeys(prefix.shape.tensors), prefix.slabs, strict=True))
    layers = {size: iter(slab) for size, slab in slabs.items()}
    views = [next(layers[size]).expand(rows, -1, -1, -1) for size in prefix.shape.tensors]
    for layer, (keys, values) in enumerate(zip(views[0::2], views[1::2], strict=True)):
        cache.update(keys, values, layer)
