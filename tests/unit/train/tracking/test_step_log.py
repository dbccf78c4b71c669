"""Trackers of a training loop without a trainer log each step and change no result."""

import csv
import pathlib
import subprocess
import sys

import pytest
import yaml

from pipeline_lib.errors import BadInputError, BudgetReachedError
from pipeline_lib.store.files import read_json, read_json_lines
from pipeline_lib.systems.prr.model.saved_model import LOG_NAME
from pipeline_lib.systems.prr.training.train import train_latent
from pipeline_lib.train.tracking.trackers import Trackers, log_steps
from tests.unit.systems.prr.small_training import STEPS, small_training

FACTS = {"train": {"lr": 0.01}, "model": {"kind": "prr"}}


def rows(folder: pathlib.Path, metric: str) -> list[tuple[int, float]]:
    """Step and value, from dvclive's own file of a metric."""
    file = folder / "plots" / "metrics" / f"{metric}.tsv"
    with file.open(encoding="utf-8", newline="") as stream:
        return [
            (int(row["step"]), float(row[metric])) for row in csv.DictReader(stream, delimiter="\t")
        ]


def tracked_training(
    folder: pathlib.Path, *, broken_at: int = 0, run_name: str | None = None, **changes
):
    """A training logged by dvclive."""
    trackers = Trackers(names=["dvclive"], folder=folder / "tracked", run_name=run_name)
    with log_steps(trackers, phase="prr", facts=FACTS) as log_step:

        def progress(step, total, metrics):
            log_step(step, total, metrics)
            if step == broken_at:
                raise InterruptedError

        return train_latent(small_training(folder / "model", "prr", progress=progress, **changes))


def test_dvclive_has_every_step_and_changes_nothing(tmp_path, monkeypatch):
    """Loss and oracle of seven steps are in its files; the digest is the same as without it."""
    monkeypatch.chdir(tmp_path)
    alone = train_latent(small_training(tmp_path / "alone", "prr"))
    assert tracked_training(tmp_path).digest == alone.digest
    folder = tmp_path / "tracked" / "dvclive" / "prr"
    log = list(read_json_lines(tmp_path / "model" / LOG_NAME))
    for name in ("loss", "oracle_exact"):
        assert rows(folder, name) == [(entry["step"], pytest.approx(entry[name])) for entry in log]
    assert yaml.safe_load((folder / "params.yaml").read_text("utf-8")) == FACTS
    assert {path.name for path in tmp_path.iterdir()} == {"alone", "model", "tracked"}


def test_metrics_are_there_while_the_training_runs(tmp_path):
    """At step 3, steps 1 and 2 can be read."""
    seen = []
    with log_steps(
        Trackers(names=["dvclive"], folder=tmp_path / "tracked"), phase="prr", facts=FACTS
    ) as log_step:

        def progress(step, total, metrics):
            if step == 3:
                seen.extend(rows(tmp_path / "tracked" / "dvclive" / "prr", "loss"))
            log_step(step, total, metrics)

        train_latent(small_training(tmp_path / "model", "prr", progress=progress))
    assert [step for step, _ in seen] == [1, 2]


def test_time_slices_log_consecutive_steps(tmp_path):
    """Each of seven calls makes one step and logs it under its own number."""
    for _ in range(STEPS - 1):
        with pytest.raises(BudgetReachedError):
            tracked_training(tmp_path, max_seconds=0)
    tracked_training(tmp_path, max_seconds=0)
    folder = tmp_path / "tracked" / "dvclive" / "prr"
    assert [step for step, _ in rows(folder, "loss")] == [1, 2, 3, 4, 5, 6, 7]
    assert read_json(folder / "metrics.json")["step"] == STEPS


def test_repeated_steps_are_logged_once(tmp_path):
    """Broken at 5, resumed from 4; then repeated with another key."""
    folder = tmp_path / "tracked" / "dvclive" / "prr"
    with pytest.raises(InterruptedError):
        tracked_training(tmp_path, broken_at=5)
    with (folder / "plots" / "metrics" / "loss.tsv").open("a", encoding="utf-8") as stream:
        stream.write("5")
    for key in ("small", "other"):
        tracked_training(tmp_path, key=key)
        assert [step for step, _ in rows(folder, "loss")] == [1, 2, 3, 4, 5, 6, 7]


def test_a_run_has_its_name(tmp_path):
    """Before the phase, so that the model and its control have distinct names, in files and elsewhere."""
    tracked_training(tmp_path, run_name="night")
    folder = tmp_path / "tracked" / "dvclive"
    assert [path.name for path in folder.iterdir()] == ["night-prr"]
    assert len(rows(folder / "night-prr", "loss")) == STEPS
    trackers = Trackers(names=["wandb"], folder=folder, run_name="night")
    assert trackers.settings("prr-control")["run_name"] == "night-prr-control"


def test_a_finished_training_logs_nothing(tmp_path):
    """It makes no step, so no tracker is opened."""
    train_latent(small_training(tmp_path / "model", "prr"))
    tracked_training(tmp_path)
    assert not (tmp_path / "tracked").exists()


def test_an_unknown_name_is_one_line(tmp_path):
    """Before the training begins."""
    with (
        pytest.raises(BadInputError, match=r"^execution.report_to: bells is unknown"),
        log_steps(Trackers(names=["bells"], folder=tmp_path), phase="prr", facts=FACTS),
    ):
        pytest.fail("the training would begin")


def test_without_trackers_transformers_is_not_loaded():
    """The command that trains latent branches starts without transformers."""
    script = "import sys, pipeline_lib.systems.prr.training.train; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
