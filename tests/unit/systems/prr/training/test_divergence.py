"""A diverged training is an error and publishes no model."""

import pytest

from pipeline_lib.errors import DivergedError
from pipeline_lib.systems.prr.training.train import train_latent
from tests.unit.systems.prr.small_training import small_training

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
