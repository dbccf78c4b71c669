"""Tiny networks run on one thread: more only wait for each other."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread_and_a_seed() -> Iterator[None]:
    """One thread and the same weights in every run; both as before afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(11)
        yield
    torch.set_num_threads(threads)
