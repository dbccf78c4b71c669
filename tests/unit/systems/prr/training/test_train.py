"""Training: determinism, resumption after kills and time limits, and damaged files."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.errors import BadInputError, BudgetReachedError
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.systems.prr.evaluation.answers import judge_batch, right_by_rule
from pipeline_lib.systems.prr.model.batches import evaluation_batches, labelled_sample
from pipeline_lib.systems.prr.model.saved_model import (
    CONFIG_NAME,
    LOG_NAME,
    WEIGHTS_NAME,
    load_model,
)
from pipeline_lib.systems.prr.training.run_state import TENSORS_NAME
from pipeline_lib.systems.prr.training.train import train_latent
from tests.unit.systems.prr.small_training import MODELS, STEPS, small_training


@pytest.mark.parametrize("kind", MODELS)
def test_a_killed_training_ends_with_the_same_digest(kind, tmp_path):
    """Seven steps, checkpoints after 2, 4 and 6, SIGKILL at 5: steps 5 to 7 are repeated.

    The digest covers the averaged weights, the puzzle vectors and every figure of the log.
    """
    unbroken = train_latent(small_training(tmp_path / "unbroken", kind))
    script = [sys.executable, "-m", "tests.unit.systems.prr.small_training"]
    killed = subprocess.run(
        [*script, str(tmp_path / "broken"), kind, "5"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-800:]
    assert not (tmp_path / "broken").exists()
    steps = []
    resumed = train_latent(
        small_training(tmp_path / "broken", kind, progress=lambda step, *_: steps.append(step))
    )
    assert steps == [5, 6, 7]
    assert resumed.digest == unbroken.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "unbroken"]


def test_a_damaged_newest_checkpoint_costs_a_step_and_changes_nothing(tmp_path):
    """Stopped after step 4, whose checkpoint loses a byte: training resumes from step 3."""
    unbroken = train_latent(small_training(tmp_path / "unbroken", "prr"))
    output = tmp_path / "broken"
    for step in range(1, 5):
        with pytest.raises(BudgetReachedError, match=f"step {step} of {STEPS}"):
            train_latent(small_training(output, "prr", max_seconds=0))
    tensors = work_folder(output, "small") / "checkpoint-4" / TENSORS_NAME
    tensors.write_bytes(tensors.read_bytes()[:-1])
    steps = []
    resumed = train_latent(
        small_training(output, "prr", progress=lambda step, *_: steps.append(step))
    )
    assert steps == [4, 5, 6, 7]
    assert resumed.digest == unbroken.digest


def test_the_seed_decides_the_result(tmp_path):
    """Equal seeds give equal files, others differ; logged losses are finite."""
    one, same, other = (
        train_latent(small_training(tmp_path / name, "prr", seed=seed))
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert one.digest == same.digest
    assert one.digest != other.digest
    lines = (tmp_path / "one" / LOG_NAME).read_text("utf-8").splitlines()
    log = [json.loads(line) for line in lines]
    assert [entry["step"] for entry in log] == list(range(1, STEPS + 1))
    assert all(torch.isfinite(torch.tensor(entry["loss"])) for entry in log)


def test_the_averaged_weights_are_evaluated_on_a_sample(tmp_path):
    """At steps 40 and 80; the last shares are those of the published model, and the weights are not changed by it."""
    request = small_training(tmp_path / "model", "prr", steps=80, evaluate_every=40)
    train_latent(request)
    train_latent(replace(request, output=tmp_path / "plain", test=None))
    weights = [(tmp_path / name / WEIGHTS_NAME).read_bytes() for name in ("model", "plain")]
    assert weights[0] == weights[1]
    log = list(read_json_lines(tmp_path / "model" / LOG_NAME))
    evaluated = [row for row in log if "test_scorer_exact" in row]
    assert [row["step"] for row in evaluated] == [40, 80]
    model = load_model(tmp_path / "model", device=torch.device("cpu"))
    chosen_N = labelled_sample(request.test, count=10, seed=request.seed)
    assert len(set(chosen_N.tolist())) == 10
    (_, batch), *more = evaluation_batches(request.test, batch_size=10, chosen_N=chosen_N)
    assert not more
    rows = judge_batch(model.predict(batch), batch)
    right = right_by_rule(rows)
    assert evaluated[-1]["test_oracle_exact"] == pytest.approx(right["oracle"].mean())
    assert evaluated[-1]["test_scorer_exact"] == pytest.approx(right["scorer"].mean())
    assert right["oracle"].mean() > 0


def test_puzzle_vectors_are_trained_and_kept(tmp_path):
    """The vectors of all four puzzles have moved; that of identifier 0 has not."""
    train_latent(small_training(tmp_path / "model", "prr"))
    model = load_model(tmp_path / "model", device=torch.device("cpu"))
    moved = model.embedding.puzzles.get_buffer("weight").abs().sum(1) > 0
    assert moved.tolist() == [False, True, True, True, True]


def test_an_interrupted_training_survives_the_end_of_another(tmp_path):
    """Stopped after step 1; the same output is then trained with another key; step 2 is next."""
    output, steps = tmp_path / "model", []
    with pytest.raises(BudgetReachedError):
        train_latent(small_training(output, "prr", max_seconds=1e-9))
    train_latent(small_training(output, "prr", key="other"))
    train_latent(small_training(output, "prr", progress=lambda step, *_: steps.append(step)))
    assert steps == [2, 3, 4, 5, 6, 7]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_damaged_model_is_refused(tmp_path):
    """Changed weights are named, and so is a folder without a model."""
    train_latent(small_training(tmp_path / "model", "prr"))
    weights = tmp_path / "model" / WEIGHTS_NAME
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(BadInputError, match=WEIGHTS_NAME):
        load_model(tmp_path / "model", device=torch.device("cpu"))
    (tmp_path / "model" / CONFIG_NAME).unlink()
    with pytest.raises(BadInputError, match="no latent model"):
        load_model(tmp_path / "model", device=torch.device("cpu"))
