"""Trackers log each step under its number and change no result."""

import csv
import json
import pathlib
import subprocess
import sys

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.train import Method
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.tracking.trackers import Trackers

METHODS = [Method.SFT, pytest.param(Method.GRPO, marks=pytest.mark.slow)]


def rows(folder: pathlib.Path, metric: str) -> dict[int, float]:
    """Value by step, from dvclive's own file of a metric."""
    file = folder / "plots" / "metrics" / f"{metric}.tsv"
    with file.open(encoding="utf-8", newline="") as stream:
        return {
            int(row["step"]): float(row[metric]) for row in csv.DictReader(stream, delimiter="\t")
        }


@pytest.mark.parametrize("method", METHODS)
def test_dvclive_has_every_step_and_changes_nothing(
    method, half_solved, request_for, tmp_path, monkeypatch
):
    """The loss of each of six steps is in its files; digest and folders are the same as without it."""
    monkeypatch.chdir(tmp_path)
    train = {"entropy_coef": 0, "warm_start_steps": 0}
    alone = train_policy(request_for(method, tmp_path / "alone", train=train, **half_solved))
    trackers = Trackers(names=["dvclive"], folder=tmp_path / "tracked")
    request = request_for(method, tmp_path / "b", train=train, trackers=trackers, **half_solved)
    assert train_policy(request).digest == alone.digest
    logged = rows(tmp_path / "tracked" / "dvclive" / method, "loss")
    log = list(read_json_lines(tmp_path / "b" / "training_log.jsonl"))
    assert logged == {entry["step"]: pytest.approx(entry["loss"]) for entry in log}
    assert {path.name for path in tmp_path.iterdir()} == {"alone", "b", "tracked"}


def test_a_resumed_run_continues_the_step_numbers(request_for, tmp_path):
    """Broken after step 5 and resumed from 4: steps 1 to 6, without 7 or 8."""

    class Broken(Exception):  # noqa: N818 - in place of a kill
        """Ends the run."""

    def stop(step: int, total: int, metrics: object) -> None:
        if step == 5:
            raise Broken

    trackers = Trackers(names=["dvclive"], folder=tmp_path / "tracked")
    with pytest.raises(Broken):
        train_policy(request_for(Method.SFT, tmp_path / "b", trackers=trackers, progress=stop))
    train_policy(request_for(Method.SFT, tmp_path / "b", trackers=trackers))
    assert list(rows(tmp_path / "tracked" / "dvclive" / "sft", "loss")) == [1, 2, 3, 4, 5, 6]
    summary = json.loads((tmp_path / "tracked" / "dvclive" / "sft" / "metrics.json").read_text())
    assert summary["step"] == 6


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("swanlab", "swanlab is not installed; run `pip install swanlab`"),
        ("bells", "bells is unknown; known are .*dvclive.*wandb"),
    ],
)
def test_an_unavailable_tracker_is_refused_in_one_line(name, message, request_for, tmp_path):
    """Before any file is written; the line names the package to install, or the known names."""
    trackers = Trackers(names=[name], folder=tmp_path / "tracked")
    with pytest.raises(BadInputError, match=f"^execution.report_to: {message}") as refusal:
        train_policy(request_for(Method.SFT, tmp_path / "out", trackers=trackers))
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_dvclive_is_loaded_only_if_requested():
    """It opens the DVC repository of the current folder."""
    loaded = "import pipeline_lib.train.methods, sys; sys.exit('dvclive' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0
