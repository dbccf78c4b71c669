"""Deterministic torch: deterministic kernels, a fixed number of threads, derived seeds.

Results are equal for an equal number of threads, which changes the rounding of sums.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import deterministic as torch_deterministic

from pipeline_lib.seeding import child_seed

# cuBLAS sums deterministically only with this setting, which it reads when CUDA starts. Draws and trainings import
# this module before that. The package itself must not set it: the sandbox imports the package, and its environment
# is empty.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
_FILLING: Any = torch_deterministic
"""Typed as Any: the attribute set below exists at run time only."""
_TRAINER_SEEDS = 2**32
"""Both libraries seed numpy, whose seeds have 32 bits."""


def trainer_seed(root_seed: int, *names: str | int) -> int:
    """A child seed in [0, 2**32), the range that transformers and TRL accept."""
    return child_seed(root_seed, *names) % _TRAINER_SEEDS


@contextmanager
def deterministic(*, threads: int, seed: int) -> Iterator[None]:
    """Run the block with deterministic kernels, ``threads`` CPU threads and torch seeded.

    The caller's generator, threads and mode are restored afterwards.
    """
    threads_before = torch.get_num_threads()
    mode_before = torch.are_deterministic_algorithms_enabled()
    fill_before = _FILLING.fill_uninitialized_memory
    products_before = torch.backends.cuda.matmul.fp32_precision
    torch.set_num_threads(threads)
    # Not only warned: with warnings alone, torch keeps non-deterministic backward passes of attention.
    torch.use_deterministic_algorithms(mode=True)
    # Filling uninitialized memory hides reads before writes and halves the speed of small models.
    _FILLING.fill_uninitialized_memory = False
    # Products of float32 on a GPU: 10 bits of the mantissa at several times the speed; sums stay float32.
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        # By default the generators of all GPUs are kept, which starts CUDA on each of them.
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = products_before
        _FILLING.fill_uninitialized_memory = fill_before
        torch.use_deterministic_algorithms(mode=mode_before)
        torch.set_num_threads(threads_before)


@contextmanager
def allow_nondeterministic_cumsum() -> Iterator[None]:
    """Permit cumulative sums of floats in the block: CUDA has no deterministic kernel for them."""
    mode_before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("default")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode_before)
