"""Compute dtype, autocast and noise, on CPU and GPU."""

from collections.abc import Sequence

import torch
from torch import Tensor


def compute_dtype(device: torch.device, precision: str) -> torch.dtype:
    """Dtype of latents: ``precision``, where "auto" is bfloat16 on CUDA and float32 elsewhere."""
    on_gpu = precision == "auto" and device.type == "cuda"
    return torch.bfloat16 if on_gpu or precision == "bfloat16" else torch.float32


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Autocast to the compute dtype; disabled for float32. Weights stay float32."""
    low = compute_dtype(device, precision) is torch.bfloat16
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=low)


NoiseSource = torch.Generator | Sequence[torch.Generator] | None
"""A generator for the batch, or one per row; None is torch's default."""


def gaussian(like: Tensor, generator: NoiseSource) -> Tensor:
    """Standard normal noise with the shape, dtype and device of ``like`` [B, ...].

    Drawn on the generator's device, so a CPU generator gives the same noise for every device. With
    one generator per row, the noise of a row is independent of the batch.
    """
    if isinstance(generator, Sequence):
        rows = zip(like, generator, strict=True)
        # Stacked first: one copy to the GPU instead of one per row.
        return torch.stack([_draw(row, own) for row, own in rows]).to(like)
    return _draw(like, generator).to(like)


def _draw(like: Tensor, generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    return torch.randn(like.shape, generator=generator, device=device)
