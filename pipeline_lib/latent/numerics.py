"""Number formats and noise, the same in code for a CPU and a GPU."""

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


def gaussian(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Unit noise of the shape, dtype and device of ``like``.

    It is drawn where the generator lives, so one on the CPU gives the same noise for every device.
    """
    device = like.device if generator is None else generator.device
    return torch.randn(like.shape, generator=generator, device=device).to(like)
