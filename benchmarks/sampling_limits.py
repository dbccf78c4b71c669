"""What the cores can do, measured, and how many tokens a second that allows, for `sampling.py`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from sampling_models import DEVICE, DTYPE, load_model

STREAM_BYTES = 512 << 20
"""Far more than any cache holds."""
GEMM_SIZE = 1024
REPEATS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The fastest of several repeats, with the given number of threads."""

    threads: int
    flops: float
    """Multiplications and additions a second of a matrix product in the precision of the sides."""
    bytes_per_second: float
    """Read and written by a = b + s x c over arrays that no cache holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Tokens a second that no engine on these cores exceeds by arithmetic, and by memory."""

    flops_per_token: float
    bytes_per_token: float
    by_arithmetic: float
    by_memory: float

    @property
    def tokens_per_second(self) -> float:
        """The smaller of both."""
        return min(self.by_arithmetic, self.by_memory)

    @property
    def binding(self) -> str:
        """Which of them it is."""
        return "arithmetic" if self.by_arithmetic < self.by_memory else "memory"


def measure_machine(threads: int) -> Machine:
    """Matrix products and a triad on this machine now."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    a, b, c = torch.rand(3, STREAM_BYTES // 3 // 4, device=DEVICE)
    square = torch.rand(GEMM_SIZE, GEMM_SIZE, device=DEVICE).to(DTYPE)
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


def limit_of(
    model: str, lengths: Sequence[tuple[int, int]], *, paths: int, rows: int, machine: Machine
) -> Limit:
    """The least that drawing texts of ``lengths`` (prompt tokens, drawn tokens) takes, per token.

    Arithmetic: every weight matrix once for each drawn token and once for each token of a prompt,
    which its paths share; scores and sums over the keys and values of the row's own text.
    Memory: the weights once a step of ``rows`` rows, and the keys and values of every row's own text
    at each of its tokens.
    """
    loaded = load_model(model)
    config = loaded.config
    weights = sum(p.numel() for p in loaded.parameters())
    drawn = sum(count for _, count in lengths)
    # The last token of a text is drawn, but nothing is computed from it.
    prompt = sum(size for size, _ in lengths) / paths
    seen = sum(size * count + count * (count - 1) / 2 for size, count in lengths)
    channels = config.num_hidden_layers * config.hidden_size
    flops = 2 * weights * (drawn - len(lengths) + prompt) + 4 * channels * seen
    bytes_ = DTYPE.itemsize * (weights * drawn / rows + 2 * channels * seen)
    return Limit(
        flops_per_token=flops / drawn,
        bytes_per_token=bytes_ / drawn,
        by_arithmetic=machine.flops * drawn / flops,
        by_memory=machine.bytes_per_second * drawn / bytes_,
    )
