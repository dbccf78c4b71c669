"""Several processes train one model: the same as one process does, up to the order of sums."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from pipeline_lib.latent.saved_model import WEIGHTS_NAME
from pipeline_lib.latent.train import train_latent
from pipeline_lib.params_file import REPOSITORY
from tests.unit.latent.small_training import small_training


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    """Each takes half of the rows; averaged gradients are those of the whole batch.

    The puzzle vectors, which move by signs, come out the same; weights within 1 % of a rate of 0.01
    a step over seven steps.
    """
    train_latent(small_training(tmp_path / "one", "plain"))
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    done = subprocess.run(
        [*launch, "-m", "tests.unit.latent.small_training", str(tmp_path / "two"), "plain", "0"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (load_file(tmp_path / name / WEIGHTS_NAME) for name in ("one", "two"))
    assert torch.equal(one["embedding.puzzles.weight"], two["embedding.puzzles.weight"])
    for name, weight in one.items():
        assert torch.allclose(weight, two[name], atol=7e-4), name
