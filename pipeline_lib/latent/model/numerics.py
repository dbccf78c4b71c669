"""Number formats and noise, the same in code for a CPU and a GPU."""

from collections.abc import Sequence

import torch
from torch import Tensor


def compute_dtype(device: torch.device, precision: str) -> torch.dtype:
    """What latents are held in: ``precision``, where "auto" means bfloat16 on CUDA alone."""
    on_gpu = precision == "auto" and device.type == "cuda"
    return torch.bfloat16 if on_gpu or precision == "bfloat16" else torch.float32


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Matrix products in the compute dtype; weights stay float32. Does nothing for float32."""
    low = compute_dtype(device, precision) is torch.bfloat16
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=low)


NoiseSource = torch.Generator | Sequence[torch.Generator] | None
"""One for a whole batch, or one for each of its rows; None is torch's own."""


def gaussian(like: Tensor, generator: NoiseSource) -> Tensor:
    """Unit noise of the shape, dtype and device of ``like``, whose first axis is the rows.

    It is drawn where the generator lives, so one on the CPU gives the same noise for every device.
    With a generator a row, what a row gets does not depend on the others.
    """
    if isinstance(generator, Sequence):
        rows = zip(like, generator, strict=True)
        # Stacked before they move: one copy to a GPU, not one a row.
        return torch.stack([_drawn(row, own) for row, own in rows]).to(like)
    return _drawn(like, generator).to(like)


def _drawn(like: Tensor, generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    return torch.randn(like.shape, generator=generator, device=device)
