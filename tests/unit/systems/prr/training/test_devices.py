"""Data-parallel training equals single-process training, up to the order of sums."""

import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.systems.prr.model.saved_model import WEIGHTS_NAME
from pipeline_lib.systems.prr.training.train import train_latent
from tests.unit.systems.prr.small_training import PLAIN, small_training


def two_processes(
    output: pathlib.Path, kind: str, *, killed_at: int = 0
) -> subprocess.CompletedProcess[str]:
    """A training by two processes under torchrun; killing rank 0 at a step ends both."""
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    training = ["-m", "tests.unit.systems.prr.small_training", str(output), kind, str(killed_at)]
    return subprocess.run(
        [sys.executable, "-m", *launch, *training],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_alike(one: pathlib.Path, two: pathlib.Path) -> None:
    """Puzzle vectors (sign updates) are equal; weights agree within 1 % of seven steps' rates."""
    first, second = (load_file(folder / WEIGHTS_NAME) for folder in (one, two))
    assert torch.equal(first["embedding.puzzles.weight"], second["embedding.puzzles.weight"])
    for name, weight in first.items():
        assert torch.allclose(weight, second[name], atol=7e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAIN)
def test_two_processes_train_as_one(kind, tmp_path):
    """Each process has half of the rows; averaged gradients equal those of the batch."""
    train_latent(small_training(tmp_path / "one", kind))
    done = two_processes(tmp_path / "two", kind)
    assert done.returncode == 0, done.stderr[-2000:]
    assert_alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAIN)
def test_one_process_resumes_from_two(kind, tmp_path):
    """Killed at step 5, with TRM rows in mid-recursion; one process runs steps 5 to 7."""
    train_latent(small_training(tmp_path / "one", kind))
    assert two_processes(tmp_path / "both", kind, killed_at=5).returncode != 0
    steps = []
    train_latent(
        small_training(tmp_path / "both", kind, progress=lambda step, *_: steps.append(step))
    )
    assert steps == [5, 6, 7]
    assert_alike(tmp_path / "one", tmp_path / "both")
