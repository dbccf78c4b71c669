"""Fixtures: one thread and a fixed seed, since tiny networks do not profit from more threads."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread_and_a_seed() -> Iterator[None]:
    """Set one thread and a fixed seed; restore both afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(11)
        yield
    torch.set_num_threads(threads)
