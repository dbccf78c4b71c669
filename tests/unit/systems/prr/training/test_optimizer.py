"""Optimizers against their formulas; data-parallel training equals that of one process."""

import math
import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.systems.prr.model.saved_model import WEIGHTS_NAME
from pipeline_lib.systems.prr.training.run_state import AdamATan2, SignSgd
from pipeline_lib.systems.prr.training.train import train_latent
from tests.unit.systems.prr.small_models import random_batch, small_prr
from tests.unit.systems.prr.small_training import PLAIN, small_training

GRADIENTS = [0.5, -2.0, 1e-12, 0.0, 3.0]


def by_formula(value: float, gradients, *, lr: float, weight_decay: float) -> list[float]:
    """p <- p (1 - lr wd) - lr / bc1 atan2(m, sqrt(v) / sqrt(bc2)), in plain floats."""
    mean = square = 0.0
    values = []
    for step, gradient in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.95 * square + 0.05 * gradient**2
        scale = math.sqrt(square) / math.sqrt(1 - 0.95**step)
        value *= 1 - lr * weight_decay
        value -= lr / (1 - 0.9**step) * math.atan2(mean, scale)
        values.append(value)
    return values


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_atan2_follows_its_formula(weight_decay):
    """Five steps, with a gradient far below a usual eps and one that is 0."""
    parameter = torch.nn.Parameter(torch.tensor([1.5], dtype=torch.float64))
    optimizer = AdamATan2([parameter], lr=0.01, weight_decay=weight_decay)
    seen = []
    for gradient in GRADIENTS:
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        seen.append(parameter.item())
    expected = by_formula(1.5, GRADIENTS, lr=0.01, weight_decay=weight_decay)
    assert seen == pytest.approx(expected, rel=1e-12)


def test_the_first_step_is_scale_invariant():
    """m is 0.1 g and the corrected sqrt(v) is g, so it is lr / 0.1 x atan(0.1) for any g."""
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    for parameter, gradient in zip(parameters, (1e-9, 1e9), strict=True):
        parameter.grad = torch.tensor([gradient])
    AdamATan2(parameters, lr=0.01).step()
    expected = -0.1 * math.atan(0.1)
    assert [parameter.item() for parameter in parameters] == pytest.approx([expected] * 2)


def test_parameters_without_a_gradient_are_unchanged():
    """They do not decay either; initial latents of branches are an example."""
    parameter = torch.nn.Parameter(torch.ones(2))
    AdamATan2([parameter], lr=0.1, weight_decay=0.5).step()
    assert parameter.tolist() == [1, 1]


def puzzle_weights(model) -> torch.Tensor:
    return model.embedding.puzzles.get_buffer("weight")


def test_sign_sgd_moves_only_the_rows_used():
    """Puzzles 0 and 1 occur in real rows, 2 in a padding row, 3 nowhere."""
    model = small_prr()
    puzzle_weights(model).fill_(2.0)
    optimizer = SignSgd(model.embedding.puzzles, lr=0.1, weight_decay=0.5)
    batch = random_batch(2, padded=1)
    model.training_step(batch, carry=None, progress=0.0, generator=None).loss.backward()
    optimizer.step()
    steps_RD = puzzle_weights(model) - 2 * (1 - 0.1 * 0.5)
    assert torch.allclose(steps_RD[:2].abs(), torch.full((2, 16), 0.1), atol=1e-6)
    assert puzzle_weights(model)[2:].eq(2.0).all()


def test_sign_sgd_sums_the_gradients_of_a_puzzle_before_their_sign():
    """Puzzle 1 has gradients 3 and -1, puzzle 3 has -1: signs +, -. Real rows only."""
    puzzles = small_prr().embedding.puzzles
    batch = random_batch(3, padded=1)
    ids_B = torch.tensor([1, 3, 1, 1])
    vectors_BD = puzzles(
        type(batch)(
            inputs_BL=batch.inputs_BL,
            labels_BL=batch.labels_BL,
            puzzle_ids_B=ids_B,
            real_B=batch.real_B,
        )
    )
    vectors_BD.grad = torch.tensor([3.0, -1.0, -1.0, -9.0])[:, None].expand(4, 16).clone()
    SignSgd(puzzles, lr=0.1).step()
    assert puzzles.get_buffer("weight")[:, 0].tolist() == pytest.approx([0, -0.1, 0, 0.1])


def test_sign_sgd_applies_a_gradient_once():
    """Without a new backward pass a second step changes nothing; neither does a prediction."""
    model = small_prr()
    optimizer = SignSgd(model.embedding.puzzles, lr=0.1)
    model.predict(random_batch())
    optimizer.step()
    assert not puzzle_weights(model).any()
    model.training_step(random_batch(), carry=None, progress=0.0, generator=None).loss.backward()
    optimizer.step()
    after = puzzle_weights(model).clone()
    optimizer.step()
    assert puzzle_weights(model).equal(after)
    assert after.any()


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
