"""Roofline of sampling: measured matrix-product and memory rates, and the tokens/s they allow."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from benchmarks.lib.sampling.models import DEVICE, Work, load_model

STREAM_BYTES = 512 << 20
"""Far above any cache size."""
GEMM_SIZE = 1024
REPEATS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Rates of the fastest repeat, with the given number of threads."""

    threads: int
    flops: float
    """Floating-point operations per second of a matrix product in the precision of the model."""
    bytes_per_second: float
    """Of the triad a = b + s x c over arrays larger than the caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Upper bounds on tokens per second by arithmetic and by memory."""

    flops_per_token: float
    bytes_per_token: float
    by_arithmetic: float
    by_memory: float

    @property
    def tokens_per_second(self) -> float:
        """The smaller of the two bounds."""
        return min(self.by_arithmetic, self.by_memory)

    @property
    def binding(self) -> str:
        """Name of the smaller bound."""
        return "arithmetic" if self.by_arithmetic < self.by_memory else "memory"


def measure_machine(threads: int, dtype: str) -> Machine:
    """Measure matrix products and a triad."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    a, b, c = torch.rand(3, STREAM_BYTES // 3 // 4, device=DEVICE)
    square = torch.rand(GEMM_SIZE, GEMM_SIZE, device=DEVICE).to(getattr(torch, dtype))
    product = torch.empty_like(square)
    triad_s = _fastest(lambda: torch.add(b, c, alpha=0.5, out=a))
    gemm_s = _fastest(lambda: torch.mm(square, square, out=product))
    torch.set_num_threads(before)
    return Machine(
        threads=threads,
        flops=2 * GEMM_SIZE**3 / gemm_s,
        bytes_per_second=3 * a.nbytes / triad_s,
    )


def _fastest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def compute_limit(
    lengths: Sequence[tuple[int, int]], *, work: Work, rows: int, machine: Machine
) -> Limit:
    """Bounds for sampling texts of ``lengths`` (prompt tokens, sampled tokens).

    Arithmetic: all weights once per sampled token and once per prompt token, which the paths of a
    prompt share; attention over the keys and values of the row. Memory: the weights once per
    step of ``rows`` rows, and the keys and values of a row once per token.
    """
    loaded = load_model(work.model, work.dtype)
    config = loaded.config
    weights = sum(p.numel() for p in loaded.parameters())
    drawn = sum(count for _, count in lengths)
    # Nothing is computed from the last token of a text.
    prompt = sum(size for size, _ in lengths) / work.paths
    seen = sum(size * count + count * (count - 1) / 2 for size, count in lengths)
    channels = config.num_hidden_layers * config.hidden_size
    stored = channels * config.num_key_value_heads // config.num_attention_heads
    flops = 2 * weights * (drawn - len(lengths) + prompt) + 4 * channels * seen
    bytes_ = loaded.dtype.itemsize * (weights * drawn / rows + 2 * stored * seen)
    return Limit(
        flops_per_token=flops / drawn,
        bytes_per_token=bytes_ / drawn,
        by_arithmetic=machine.flops * drawn / flops,
        by_memory=machine.bytes_per_second * drawn / bytes_,
    )
