"""The GPUs that tests see: those of the machine for tests marked `gpu`, none for all others."""

import os

import pytest
import torch

from tests.conftest import asks_for_gpu


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("not gpu and not slow and not network", False),
        ("slow", False),
        ("fault and not gpu", False),
        ("gpu", True),
        ("gpu and slow", True),
        ("gpu and not slow", True),
        ("gpu or slow", True),
        ("", False),
    ],
)
def test_gpus_are_hidden_unless_their_tests_are_asked_for(expression, expected):
    """Every expression of the Makefile, and others."""
    assert asks_for_gpu(expression) == expected


def test_this_process_and_what_it_starts_see_no_gpu(request):
    """The variable is set in each worker of pytest-xdist and inherited by child processes."""
    if asks_for_gpu(request.config.option.markexpr):
        pytest.skip("the GPU's tests are asked for")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert torch.cuda.device_count() == 0
