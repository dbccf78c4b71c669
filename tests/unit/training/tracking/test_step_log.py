"""Trackers of a training without a trainer: told each step, and without any say in what is trained."""

import csv
import pathlib
import subprocess
import sys

import pytest
import yaml

from pipeline_lib.errors import BadInputError, BudgetReachedError
from pipeline_lib.latent.model.saved_model import LOG_NAME
from pipeline_lib.latent.training.train import train_latent
from pipeline_lib.storage.files import read_json, read_json_lines
from pipeline_lib.training.tracking.step_log import open_trackers
from tests.unit.latent.small_training import STEPS, small_training

FACTS = {"train": {"lr": 0.01}, "model": {"kind": "prr"}}


def rows(folder: pathlib.Path, metric: str) -> list[tuple[int, float]]:
    """Step and value, from dvclive's own file of a metric."""
    file = folder / "plots" / "metrics" / f"{metric}.tsv"
    with file.open(encoding="utf-8", newline="") as stream:
        return [
            (int(row["step"]), float(row[metric])) for row in csv.DictReader(stream, delimiter="\t")
        ]


def told_training(folder: pathlib.Path, *, broken_at: int = 0, **changes):
    """A training with dvclive at its side."""
    with open_trackers(["dvclive"], folder / "told", phase="latent", facts=FACTS) as tell:

        def progress(step, total, metrics):
            tell(step, total, metrics)
            if step == broken_at:
                raise InterruptedError

        return train_latent(small_training(folder / "model", "prr", progress=progress, **changes))


def test_dvclive_has_every_step_and_changes_nothing(tmp_path, monkeypatch):
    """Loss and oracle of seven steps stand in its files; the digest is as without it."""
    monkeypatch.chdir(tmp_path)
    alone = train_latent(small_training(tmp_path / "alone", "prr"))
    assert told_training(tmp_path).digest == alone.digest
    folder = tmp_path / "told" / "dvclive" / "latent"
    log = list(read_json_lines(tmp_path / "model" / LOG_NAME))
    for name in ("loss", "oracle_exact"):
        assert rows(folder, name) == [(entry["step"], pytest.approx(entry[name])) for entry in log]
    assert yaml.safe_load((folder / "params.yaml").read_text("utf-8")) == FACTS
    assert {path.name for path in tmp_path.iterdir()} == {"alone", "model", "told"}


def test_metrics_are_there_while_the_training_runs(tmp_path):
    """At the moment of step 3, steps 1 and 2 can be read."""
    seen = []
    with open_trackers(["dvclive"], tmp_path / "told", phase="latent", facts=FACTS) as tell:

        def progress(step, total, metrics):
            if step == 3:
                seen.extend(rows(tmp_path / "told" / "dvclive" / "latent", "loss"))
            tell(step, total, metrics)

        train_latent(small_training(tmp_path / "model", "prr", progress=progress))
    assert [step for step, _ in seen] == [1, 2]


def test_slices_of_time_are_one_row_of_steps(tmp_path):
    """Each of seven calls does a step and is told under its own number."""
    for _ in range(STEPS - 1):
        with pytest.raises(BudgetReachedError):
            told_training(tmp_path, max_seconds=0)
    told_training(tmp_path, max_seconds=0)
    folder = tmp_path / "told" / "dvclive" / "latent"
    assert [step for step, _ in rows(folder, "loss")] == [1, 2, 3, 4, 5, 6, 7]
    assert read_json(folder / "metrics.json")["step"] == STEPS


def test_steps_that_are_done_again_stand_there_once(tmp_path):
    """Broken at 5 in the middle of a row, continued from 4; then all again with another key."""
    folder = tmp_path / "told" / "dvclive" / "latent"
    with pytest.raises(InterruptedError):
        told_training(tmp_path, broken_at=5)
    with (folder / "plots" / "metrics" / "loss.tsv").open("a", encoding="utf-8") as stream:
        stream.write("5")
    for key in ("small", "other"):
        told_training(tmp_path, key=key)
        assert [step for step, _ in rows(folder, "loss")] == [1, 2, 3, 4, 5, 6, 7]


def test_a_finished_training_tells_nothing(tmp_path):
    """No step is done, so that no tracker is opened."""
    train_latent(small_training(tmp_path / "model", "prr"))
    told_training(tmp_path)
    assert not (tmp_path / "told").exists()


def test_an_unknown_name_is_one_line(tmp_path):
    """Before the training begins."""
    with (
        pytest.raises(BadInputError, match=r"^execution.report_to: bells is unknown"),
        open_trackers(["bells"], tmp_path, phase="latent", facts=FACTS),
    ):
        pytest.fail("the training would begin")


def test_nothing_is_loaded_where_nobody_listens():
    """The command that trains latent branches starts without transformers."""
    script = (
        "import sys; from pathlib import Path; from pipeline_lib.training.tracking.step_log import open_trackers\n"
        "with open_trackers([], Path(), phase='latent', facts={}) as tell: tell(1, 2, {})\n"
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
