"""Number formats and noise that a CPU and a GPU share: float32 on a CPU, bfloat16 on CUDA."""

import torch
from torch import Tensor


def compute_dtype(device: torch.device) -> torch.dtype:
    """What latents are held in."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def autocast(device: torch.device) -> torch.autocast:
    """Matrix products in the compute dtype; weights stay float32. Does nothing on a CPU."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def gaussian(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Unit noise of the shape, dtype and device of ``like``.

    It is drawn where the generator lives, so one on the CPU gives the same noise for every device.
    """
    device = like.device if generator is None else generator.device
    return torch.randn(like.shape, generator=generator, device=device).to(like)
