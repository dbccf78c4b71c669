"""Compute dtype, autocast and noise, on CPU and GPU."""

import math
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


class DeviceNoise:
    """Normal noise of each row by its seed, drawn on the device: no copies, and no stream of a CPU generator.

    Philox 4x32-10 by (place in the row, number of the draw), then Box and Muller's transform.
    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        keys_2B1 = [[[part] for part in parts] for parts in zip(*map(_halves, seeds), strict=True)]
        self._keys_2B1 = torch.tensor(keys_2B1, device=device)
        self._draws = 0

    def draw(self, like: Tensor) -> Tensor:
        """The next noise with the shape of ``like`` [B, ...], in float32."""
        count = like[0].numel()
        places = torch.arange(-(-count // 4), device=like.device).expand(len(like), -1)
        zeros = torch.zeros_like(places)
        parts = philox((places, zeros + self._draws, zeros, zeros), self._keys_2B1.unbind())
        self._draws += 1
        # 24 bits, which float32 holds; never 0, whose logarithm is infinite.
        low, angle, low_2, angle_2 = (((part >> 8) + 1).float() * 2.0**-24 for part in parts)
        normals = [
            (-2 * one.log()).sqrt() * turn(2 * math.pi * other)
            for one, other in ((low, angle), (low_2, angle_2))
            for turn in (torch.cos, torch.sin)
        ]
        return torch.cat(normals, dim=1)[:, :count].reshape(like.shape)


def philox(words: Sequence[Tensor], key: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Four words of 32 random bits for each counter of four words, which int64 tensors hold."""
    a, b, c, d = words
    left, right = key
    for _ in range(10):
        # The product wraps around at 2^64, which keeps all of its bits.
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b = (y >> 32) & _WORD ^ b ^ left, y & _WORD
        c, d = (x >> 32) & _WORD ^ d ^ right, x & _WORD
        left, right = (left + 0x9E3779B9) & _WORD, (right + 0xBB67AE85) & _WORD
    return a, b, c, d


def _halves(seed: int) -> tuple[int, int]:
    return seed & _WORD, seed >> 32 & _WORD


_WORD = 0xFFFFFFFF
NoiseSource = torch.Generator | Sequence[torch.Generator] | DeviceNoise | None
"""A generator for the batch, or one per row; None is torch's default."""


def noise_of_rows(seeds: Sequence[int], device: torch.device) -> NoiseSource:
    """A source with a seed per row: CPU generators on a CPU, else `DeviceNoise`."""
    if device.type == "cpu":
        return [torch.Generator().manual_seed(seed) for seed in seeds]
    return DeviceNoise(seeds, device)


def gaussian(like: Tensor, generator: NoiseSource) -> Tensor:
    """Standard normal noise with the shape, dtype and device of ``like`` [B, ...].

    Drawn on the generator's device, so a CPU generator gives the same noise for every device. With
    one generator per row, the noise of a row is independent of the batch.
    """
    if isinstance(generator, DeviceNoise):
        return generator.draw(like).to(like)
    if isinstance(generator, Sequence):
        rows = zip(like, generator, strict=True)
        # Stacked first: one copy to the GPU instead of one per row.
        return torch.stack([_draw(row, own) for row, own in rows]).to(like)
    return _draw(like, generator).to(like)


def _draw(like: Tensor, generator: torch.Generator | None) -> Tensor:
    device = like.device if generator is None else generator.device
    return torch.randn(like.shape, generator=generator, device=device)
