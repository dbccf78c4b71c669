"""Layers of the recursive core and its input: embeddings, RMS norm, SwiGLU, attention, post-norm blocks; precision and noise.

Blocks have neither biases nor gains, so a latent keeps unit mean square over any number of passes.
Puzzle vectors are sparse: many rows, each rarely used. They are a buffer, not a parameter; a step
collects gradients of the rows in use, and `SignSgd` updates only these.

Source: Jolicoeur-Martineau 2025 (arXiv:2510.04871); Shazeer 2020 (arXiv:2002.05202) for SwiGLU;
Su et al. 2021 (arXiv:2104.09864) for rotary positions.

Axes: N sequences (rows x branches), B rows, P prefix positions, L positions of the sequence, S = P + L, D channels,
H heads, C channels per head, X queries, keys and values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from pipeline_lib.params.prr import PrrModelParams
from pipeline_lib.systems.prr.model.batches import Batch, Sizes


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


_NORM_EPS = 1e-5
_ROTARY_BASE = 10000.0
_CUT = 2.0
"""Truncation bound in standard deviations."""
_CUT_STD = 0.8796256610342398
"""Standard deviation of a unit normal truncated at that bound."""


def truncated_normal_(weight: Tensor, *, std: float) -> Tensor:
    """Fill in place from a normal truncated at two deviations, rescaled to deviation ``std``."""
    scale = std / _CUT_STD
    return nn.init.trunc_normal_(weight, std=scale, a=-_CUT * scale, b=_CUT * scale)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer without bias, initialised to preserve the mean square of its input."""
    layer = nn.Linear(inputs, outputs, bias=False)
    truncated_normal_(layer.weight.data, std=1 / math.sqrt(inputs))
    return layer


def rms_norm(values: Tensor) -> Tensor:
    """RMS norm over the last axis without gain, computed in float32; keeps the dtype."""
    normed = functional.rms_norm(values.float(), values.shape[-1:], eps=_NORM_EPS)
    return normed.to(values.dtype)


def hidden_width(width: int, *, expansion: float, multiple: int) -> int:
    """Hidden width of SwiGLU: 2/3 x ``expansion`` x ``width``, rounded up to ``multiple``."""
    return math.ceil(round(expansion * width * 2 / 3) / multiple) * multiple


class SwiGLU(nn.Module):
    """Gated feed-forward layer over the last axis."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = linear(width, 2 * hidden)
        self.down = linear(hidden, width)

    @override
    def forward(self, values: Tensor) -> Tensor:
        """[..., width] to [..., width]."""
        gate, up = self.gate_up(values).chunk(2, dim=-1)
        mapped: Tensor = self.down(functional.silu(gate) * up)
        return mapped


class Attention(nn.Module):
    """Bidirectional multi-head attention with rotary position embeddings."""

    def __init__(self, width: int, *, heads: int, positions: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = linear(width, 3 * width)
        self.out = linear(width, width)
        channels = width // heads
        frequencies = _ROTARY_BASE ** -(torch.arange(0, channels, 2) / channels)
        # Channels c and c + channels / 2 rotate together.
        angles_SC = torch.outer(torch.arange(positions), frequencies).repeat(1, 2)
        self.register_buffer("cos_SC", angles_SC.cos(), persistent=False)
        # The sign of the rotation is folded into the sine.
        sign_C = torch.ones(channels)
        sign_C[: channels // 2] = -1
        self.register_buffer("sin_SC", angles_SC.sin() * sign_C, persistent=False)

    @override
    def forward(self, latents_NSD: Tensor) -> Tensor:
        """[N, S, D] to [N, S, D]."""
        heads_NSXHC = self.qkv(latents_NSD).unflatten(-1, (3, self.heads, -1))
        heads_XNHSC = heads_NSXHC.permute(2, 0, 3, 1, 4)
        queries_NHSC, keys_NHSC = self._rotate(heads_XNHSC[:2]).unbind(0)
        mixed_NHSC = functional.scaled_dot_product_attention(
            queries_NHSC, keys_NHSC, heads_XNHSC[2]
        )
        mixed: Tensor = self.out(mixed_NHSC.transpose(1, 2).flatten(2))
        return mixed

    def _rotate(self, heads_XNHSC: Tensor) -> Tensor:
        first, second = heads_XNHSC.chunk(2, dim=-1)
        swapped_XNHSC = torch.cat((second, first), dim=-1)
        cos_SC, sin_SC = (
            self.get_buffer(name).to(heads_XNHSC.dtype) for name in ("cos_SC", "sin_SC")
        )
        return torch.addcmul(heads_XNHSC * cos_SC, swapped_XNHSC, sin_SC)


class Block(nn.Module):
    """Mix positions, then channels, each with a residual connection and post-norm."""

    def __init__(self, params: PrrModelParams, *, positions: int) -> None:
        super().__init__()

        def swiglu(width: int) -> SwiGLU:
            hidden = hidden_width(
                width, expansion=params.expansion, multiple=params.hidden_multiple
            )
            return SwiGLU(width, hidden)

        self.over_positions = params.mixer == "mlp"
        self.mixer: nn.Module = (
            swiglu(positions)
            if self.over_positions
            else Attention(params.width, heads=params.heads, positions=positions)
        )
        self.channels = swiglu(params.width)

    @override
    def forward(self, latents_NSD: Tensor) -> Tensor:
        """[N, S, D] to [N, S, D]."""
        if self.over_positions:
            # As published, this norm is over positions, not channels.
            turned_NDS = latents_NSD.transpose(1, 2)
            latents_NSD = rms_norm(turned_NDS + self.mixer(turned_NDS)).transpose(1, 2)
        else:
            latents_NSD = rms_norm(latents_NSD + self.mixer(latents_NSD))
        return rms_norm(latents_NSD + self.channels(latents_NSD))


class Blocks(nn.Module):
    """The stack of blocks shared by all recursion steps; one call is one core pass."""

    def __init__(self, params: PrrModelParams, *, positions: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Block(params, positions=positions) for _ in range(params.layers)
        )

    @override
    def forward(self, latents_NSD: Tensor) -> Tensor:
        """[N, S, D] to [N, S, D]."""
        for layer in self.layers:
            latents_NSD = layer(latents_NSD)
        return latents_NSD


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedRows:
    """The puzzle vectors used by one training step, as a leaf of its autograd graph."""

    ids_B: Tensor
    real_B: Tensor
    vectors_BD: Tensor
    """Holds the gradient of the loss after the backward pass."""


class PuzzleEmbedding(nn.Module):
    """One vector per puzzle, initialised to zero."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(rows, width))
        self.used: UsedRows | None = None

    @override
    def forward(self, batch: Batch) -> Tensor:
        """Vectors [B, D]; with gradients enabled they are also stored in ``used``."""
        vectors_BD = self.get_buffer("weight")[batch.puzzle_ids_B]
        if torch.is_grad_enabled():
            vectors_BD.requires_grad_()
            self.used = UsedRows(
                ids_B=batch.puzzle_ids_B, real_B=batch.real_B, vectors_BD=vectors_BD
            )
        return vectors_BD


class InputEmbedding(nn.Module):
    """Puzzle vector, zero prefix and token embeddings; a token has unit mean square."""

    def __init__(self, params: PrrModelParams, sizes: Sizes) -> None:
        super().__init__()
        self.prefix, self.precision = params.prefix_tokens, params.precision
        self.scale = math.sqrt(params.width)
        self.tokens = nn.Embedding(sizes.vocab_size, params.width)
        truncated_normal_(self.tokens.weight.data, std=1 / self.scale)
        self.puzzles = PuzzleEmbedding(sizes.num_puzzle_ids, params.width)

    @override
    def forward(self, batch: Batch) -> Tensor:
        """[B, S, D], in the compute dtype."""
        first_BD = self.puzzles(batch)
        prefix_BPD = functional.pad(first_BD[:, None], (0, 0, 0, self.prefix - 1))
        tokens_BLD = self.tokens(batch.inputs_BL)
        embedded_BSD = self.scale * torch.cat((prefix_BPD, tokens_BLD), dim=1)
        return embedded_BSD.to(compute_dtype(embedded_BSD.device, self.precision))
