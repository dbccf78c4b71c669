"""Several processes train one model: the same as one process does, up to the order of sums."""

import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from pipeline_lib.latent.model.saved_model import WEIGHTS_NAME
from pipeline_lib.latent.training.train import train_latent
from pipeline_lib.repository import REPOSITORY
from tests.unit.latent.small_training import PLAIN, small_training


def two_processes(
    output: pathlib.Path, kind: str, *, killed_at: int = 0
) -> subprocess.CompletedProcess[str]:
    """A training by two of them under torchrun; at a step the first is killed, and so both are."""
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    training = ["-m", "tests.unit.latent.small_training", str(output), kind, str(killed_at)]
    return subprocess.run(
        [sys.executable, "-m", *launch, *training],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_alike(one: pathlib.Path, two: pathlib.Path) -> None:
    """Puzzle vectors, which move by signs, are the same; weights within 1 % of seven steps' rates."""
    first, second = (load_file(folder / WEIGHTS_NAME) for folder in (one, two))
    assert torch.equal(first["embedding.puzzles.weight"], second["embedding.puzzles.weight"])
    for name, weight in first.items():
        assert torch.allclose(weight, second[name], atol=7e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAIN)
def test_two_processes_train_as_one(kind, tmp_path):
    """Each takes half of the rows; averaged gradients are those of the whole batch."""
    train_latent(small_training(tmp_path / "one", kind))
    done = two_processes(tmp_path / "two", kind)
    assert done.returncode == 0, done.stderr[-2000:]
    assert_alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLAIN)
def test_one_process_goes_on_from_two(kind, tmp_path):
    """Killed at step 5, where rows of TRM are in the middle of their three steps; 5 to 7 are done here."""
    train_latent(small_training(tmp_path / "one", kind))
    assert two_processes(tmp_path / "both", kind, killed_at=5).returncode != 0
    steps = []
    train_latent(
        small_training(tmp_path / "both", kind, progress=lambda step, *_: steps.append(step))
    )
    assert steps == [5, 6, 7]
    assert_alike(tmp_path / "one", tmp_path / "both")
