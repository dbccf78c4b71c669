"""Torch made repeatable: deterministic kernels, a fixed number of threads, derived seeds.

The same number of threads is part of the promise, since sums over another split round differently.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import deterministic as torch_deterministic

from pipeline_lib.seeding import child_seed

_FILLING: Any = torch_deterministic
"""As Any, since the attribute that is set on it exists at run time only."""
_TRAINER_SEEDS = 2**32
"""The libraries' seeding ends in numpy's, which takes 32 bits."""


def trainer_seed(root_seed: int, *names: str | int) -> int:
    """A child seed in the range that transformers and TRL accept."""
    return child_seed(root_seed, *names) % _TRAINER_SEEDS


@contextmanager
def deterministic(*, threads: int, seed: int) -> Iterator[None]:
    """Run the block with deterministic kernels, ``threads`` CPU threads and torch seeded.

    The caller's generator, threads and mode are restored afterwards.
    """
    threads_before = torch.get_num_threads()
    mode_before = torch.are_deterministic_algorithms_enabled()
    fill_before = _FILLING.fill_uninitialized_memory
    torch.set_num_threads(threads)
    # On a GPU a few kernels have no deterministic form: there the promise is void, with a warning.
    torch.use_deterministic_algorithms(mode=True, warn_only=torch.cuda.is_available())
    # Filling fresh memory only hides reads before writes, and halves the speed of small models.
    _FILLING.fill_uninitialized_memory = False
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield
    finally:
        _FILLING.fill_uninitialized_memory = fill_before
        torch.use_deterministic_algorithms(mode=mode_before)
        torch.set_num_threads(threads_before)
