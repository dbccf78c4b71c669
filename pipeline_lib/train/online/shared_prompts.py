"""Prompts of a batch that are computed once for all paths that follow them, gradients included.

A group of N paths has one prompt. Its keys and values are computed once and used by all of them; their
gradients add up, as they do over N copies. A prompt's last token stays with each path, since its output
predicts the path's first token.

Axes: B rows, P columns of prompts (padded left), U distinct prompts, R rows of one pass, H heads,
D channels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

_MIN_ROWS_PER_PROMPT = 2
"""Mean number of rows of a prompt below which a pass over the prompts does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrompts:
    """Keys and values of distinct prompts without their last tokens."""

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """Keys and values [U, H, P - 1, D] of each layer."""
    prompt_of_B: torch.Tensor
    """Index into U of each row's prompt; -1 for rows that were not requested."""

    def cache_of(self, rows_R: torch.Tensor, *, start: int) -> DynamicCache:
        """The cache for the rows of one pass, whose prompts begin at column ``start`` or later."""
        cache = DynamicCache()
        prompts_R = self.prompt_of_B[rows_R]
        for place, pair in enumerate(self.layers):
            keys, values = (kept[:, :, start:].index_select(0, prompts_R) for kept in pair)
            cache.update(keys, values, place)
        return cache


def shares_prompts(model: Any) -> bool:
    """True if ``model``, in its present mode, caches nothing but plain keys and values."""
    if model.training and model.is_gradient_checkpointing:
        return False
    kept = DynamicCache(config=model.config).layers
    return {type(layer) for layer in kept} == {DynamicLayer}


def compute_shared_prompts(
    call: Callable[..., Any], ids_BP: torch.Tensor, mask_BP: torch.Tensor, rows: torch.Tensor
) -> SharedPrompts | None:
    """The prompts of ``rows``, computed by one ``call`` of the model; None where few rows share one."""
    if ids_BP.shape[1] < 2 or not len(rows):
        return None
    keyed_B = torch.stack([ids_BP * mask_BP, mask_BP], dim=1)[rows]
    distinct_U, place = torch.unique(keyed_B, dim=0, return_inverse=True)
    if _MIN_ROWS_PER_PROMPT * len(distinct_U) > len(rows):
        return None
    ids_UP, mask_UP = distinct_U[:, 0, :-1], distinct_U[:, 1, :-1]
    cache: Any = DynamicCache()
    call(
        input_ids=ids_UP,
        attention_mask=mask_UP,
        position_ids=compute_positions(mask_UP),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    prompt_of_B = torch.full((len(ids_BP),), -1, device=ids_BP.device)
    prompt_of_B[rows] = place
    return SharedPrompts(
        layers=tuple((layer.keys, layer.values) for layer in cache.layers),
        prompt_of_B=prompt_of_B,
    )


def compute_positions(mask: torch.Tensor) -> torch.Tensor:
    """Position of each token in its text, not counting left padding; same shape as ``mask``."""
    return (mask.cumsum(-1) - 1).clamp(min=0)
