"""Matrix products in bfloat16 over float32 weights.

On a CPU attention stays in float32: torch's backward pass of it takes about four times as long in bfloat16,
which costs more than the other products gain.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "reasonloop_float32"


@contextmanager
def bfloat16_products(model: Any, *, enabled: bool) -> Iterator[None]:
    """Compute the model's matrix products in bfloat16 inside of the block, if enabled."""
    device = model.device.type
    before = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    # The embedded engine's attention, which a model keeps that has drawn by it, is sdpa in training.
    replaced = enabled and device == "cpu" and before != "eager"
    if replaced:
        model.set_attn_implementation(_NAME)
    try:
        with torch.autocast(device, torch.bfloat16, enabled=enabled):
            yield
    finally:
        if replaced:
            model.set_attn_implementation(before)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The function that transformers calls."""
    with torch.autocast(query.device.type, enabled=False):
        output, _ = sdpa_attention_forward(
            module, query.float(), key.float(), value.float(), attention_mask, **options
        )
    return output.to(query.dtype), None


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
