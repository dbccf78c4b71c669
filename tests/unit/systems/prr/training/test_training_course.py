"""Schedules of a training: learning rates, temperature, averaged weights; what diverges is an error.

The steps are watched by torch's own hooks on optimizers, from outside of the training.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from pipeline_lib.errors import DivergedError
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.systems.prr.model.saved_model import LOG_NAME, load_model
from pipeline_lib.systems.prr.training.run_state import AdamATan2
from pipeline_lib.systems.prr.training.train import train_latent
from tests.unit.systems.prr.small_training import small_training

LABELS = 5
"""Of every example."""


class OptimizerRecord:
    """Rates and weights at every step."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}
        self.weights: list[list[torch.Tensor]] = []
        """Weights before the first step and after each."""

    def before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        rates = self.rates.setdefault(type(optimizer).__name__, [])
        rates.append(optimizer.param_groups[0]["lr"])
        if not self.weights:
            self.after(optimizer)

    def after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if isinstance(optimizer, AdamATan2):
            parameters = optimizer.param_groups[0]["params"]
            self.weights.append([parameter.detach().clone() for parameter in parameters])


@contextmanager
def record_optimizers() -> Iterator[OptimizerRecord]:
    """Record all optimizers within the block."""
    seen = OptimizerRecord()
    with ExitStack() as stack:
        for handle in (
            register_optimizer_step_pre_hook(seen.before),
            register_optimizer_step_post_hook(seen.after),
        ):
            stack.callback(handle.remove)
        yield seen


@pytest.mark.parametrize("kind", ["prr", "trm"])
def test_the_average_is_published(kind, tmp_path):
    """a <- .9 a + .1 w after each of seven steps, computed by hand."""
    with record_optimizers() as seen:
        train_latent(small_training(tmp_path / "model", kind))
    averages, *updates = seen.weights
    assert len(updates) == 7
    for weights in updates:
        averages = [0.9 * a + 0.1 * w for a, w in zip(averages, weights, strict=True)]
    published = list(load_model(tmp_path / "model", device=torch.device("cpu")).parameters())
    for average, parameter in zip(averages, published, strict=True):
        assert torch.allclose(parameter, average, atol=1e-6)
    assert not all(map(torch.allclose, published, updates[-1]))


def test_rates_warm_up_and_stay(tmp_path):
    """Warm-up over four of seven steps: 1/4, 2/4, 3/4 and then all of .01 and of .2."""
    with record_optimizers() as seen:
        train_latent(
            small_training(tmp_path / "model", "prr", warmup_steps=4, lr=0.01, puzzle_lr=0.2)
        )
    shares = [0.25, 0.5, 0.75, 1, 1, 1, 1]
    assert seen.rates["AdamATan2"] == pytest.approx([0.01 * share for share in shares])
    assert seen.rates["SignSgd"] == pytest.approx([0.2 * share for share in shares])


def test_without_warm_up_the_first_step_has_the_full_rate(tmp_path):
    """Zero warm-up steps do not divide by zero."""
    with record_optimizers() as seen:
        train_latent(small_training(tmp_path / "model", "prr", warmup_steps=0, steps=2))
    assert seen.rates["AdamATan2"] == [0.01, 0.01]


def test_the_temperature_falls_over_the_first_part(tmp_path):
    """From 1 to 1/5 (five labels): .2 to the power of min(1, f / .6) with f of 0/7 to 6/7."""
    train_latent(small_training(tmp_path / "model", "prr"))
    log = list(read_json_lines(tmp_path / "model" / LOG_NAME))
    expected = [(1 / LABELS) ** min(1, done / 7 / 0.6) for done in range(7)]
    assert expected[0] == 1
    assert expected[-2:] == [0.2, 0.2]
    assert [entry["tau"] for entry in log] == pytest.approx(expected)


BLOWN_UP = {"optimizer": "adamw", "warmup_steps": 0, "lr": 1e30}
SELDOM = {"log_every": 100, "checkpoint_every": 100}


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ({"log_every": 3, "checkpoint_every": 100}, "step 3: diverged, loss"),
        ({"log_every": 100, "checkpoint_every": 4}, "step 4: diverged, loss"),
        (SELDOM, "step 7: diverged, loss"),
        # The loss before the only update is finite; decay then overflows float32 (factor -1e39).
        (SELDOM | {"steps": 1, "weight_decay": 1e9}, "step 1: diverged, weights"),
    ],
    ids=["where it logs", "where it would save", "at its end", "in its last update"],
)
def test_a_diverged_training_is_refused(train, said, tmp_path):
    """A one-line error names step and remedy; neither model nor checkpoint is written."""
    with pytest.raises(DivergedError, match=said) as refusal:
        train_latent(small_training(tmp_path / "model", "prr", **(BLOWN_UP | train)))
    assert "lower prr.train.lr" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_resuming_a_diverging_training_fails_again(tmp_path):
    """Step 1 is finite and saved; both calls fail at step 2."""
    for _ in range(2):
        with pytest.raises(DivergedError, match="step 2"):
            train_latent(
                small_training(tmp_path / "model", "trm", **(BLOWN_UP | {"checkpoint_every": 1}))
            )
    assert not (tmp_path / "model").exists()
