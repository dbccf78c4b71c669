"""A pytest plugin that gives its process a simulated CUDA device: `-p tests.simulated_cuda.plugin`."""

import os

import pytest

from tests.simulated_cuda import device

device.start(os.environ["SIMULATED_CUDA"])


@pytest.fixture(autouse=True)
def no_waits() -> None:
    """Each test counts its own waits."""
    device.SYNCS.clear()
