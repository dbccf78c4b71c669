"""Determinism: the block sets threads, seed and mode, and restores them."""

import os
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.sequence_table import sample_tokens

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def test_the_block_is_repeatable_and_leaves_the_caller_as_it_was():
    """Two blocks draw the same numbers; generator, threads and mode outside are unchanged."""
    outside = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    drawn = []
    for _ in range(2):
        with deterministic(threads=1, seed=3):
            assert torch.get_num_threads() == 1
            assert torch.are_deterministic_algorithms_enabled()
            drawn.append(torch.rand(4))
    assert torch.equal(*drawn)
    assert torch.equal(outside, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


class Modes(TorchDispatchMode):
    """The mode that each operation meets: 0 none, 1 warnings, 2 errors."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((func.__name__.split(".")[0], torch.get_deterministic_debug_mode()))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("top_p", [1.0, 0.5])
def test_only_cumulative_sums_of_a_draw_are_not_deterministic(top_p):
    """In the block, every operation of a draw but these is refused where it has no deterministic kernel."""
    logits = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    with deterministic(threads=1, seed=3), Modes() as modes:
        sample_tokens(logits, torch.tensor([0.3, 0.6]), Decoding(top_p=top_p))
    assert {mode for name, mode in modes.seen if name.startswith("cumsum")} == {0}
    assert {mode for name, mode in modes.seen if not name.startswith("cumsum")} == {2}


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, ":4096:8"), pytest.param(":16:8", ":16:8", marks=pytest.mark.slow)],
)
def test_cublas_has_a_deterministic_workspace_in_every_process(given, expected):
    """Without it strict mode refuses every matrix product on CUDA. Draws set it, too; a given value stays."""
    environment = {key: value for key, value in os.environ.items() if key != CUBLAS}
    code = (
        f"import pipeline_lib.engines.embedded.embedded_engine, os; print(os.environ[{CUBLAS!r}])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | ({CUBLAS: given} if given else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == expected


def test_trainer_seeds_fit_numpy():
    """numpy takes 32 bits; 200 names give 200 different seeds below 2**32."""
    seeds = {trainer_seed(7, "training", index) for index in range(200)}
    assert len(seeds) == 200
    assert max(seeds) < 2**32


def test_products_of_float32_take_tensor_cores_in_the_block():
    """TF32 on a GPU; the setting before is restored."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    with deterministic(threads=1, seed=0):
        assert matmul.fp32_precision == "tf32"
    assert matmul.fp32_precision == before
