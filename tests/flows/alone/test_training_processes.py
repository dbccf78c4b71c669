"""A training on two processes of Ray: equal to one process, and to itself after a process is killed."""

import os
import re
import shutil
import signal

import numpy as np
import pytest

from flows.ray.nodes import check_resources
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.telemetry import count_retried, read_events
from pipeline_lib.train.weights.policies import LOG_NAME
from tests.waiting import until

TRAIN = (
    *("--profile", "smoke", "--set", "train.warm_start_steps=0", "--set", "train.steps=30"),
    *("--set", "train.checkpoint_every=5"),
)
COMPARED = ("loss", "grad_norm", "reward", "mean_tokens")
TWO = (*TRAIN, "--set", "train.processes=2")


@pytest.fixture
def workspace(finished_run, tmp_path):
    """Makes a workspace of a name with all that a training reads."""

    def make(name):
        for part in ("data", "models/base"):
            shutil.copytree(finished_run / part, tmp_path / name / part)
        return tmp_path / name

    return make


def digest(root):
    """Of the trained policy."""
    return manifests.read_manifest(root / "models" / "policy").digest


def notes(root):
    """The texts of all notes."""
    return [one["text"] for one in read_events(root) if one["event"] == "note"]


def steps(root):
    """Steps that are done."""
    return [one["done"] for one in read_events(root) if one["event"] == "work"]


def kill_second(root, process, *, losses):
    """Kill the second process once the training has begun, and ``losses`` are noted."""

    def second():
        begun = [note for note in notes(root) if note.startswith("train: 2 processes")]
        return begun[losses:] and len(steps(root)) > 12 * (losses + 1) and begun[losses]

    until(second, process=process)
    os.kill(int(re.findall(r"pid (\d+)", second())[1]), signal.SIGKILL)


@pytest.fixture
def two(workspace, reasonloop):
    """The workspace of an unbroken training by two processes."""
    root = workspace("two")
    done = reasonloop("stage", "train", "--workspace", root, *TWO)
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.slow
def test_two_processes_train_as_one(two, workspace, reasonloop):
    """Draws are equal, losses up to rounding; the manifest says how many there were."""
    one = workspace("one")
    done = reasonloop("stage", "train", "--workspace", one, *TRAIN)
    assert done.returncode == 0, done.stderr
    logs = [
        [[row[name] for name in COMPARED] for row in read_json_lines(file)]
        for file in (root / "models" / "policy" / LOG_NAME for root in (one, two))
    ]
    # Sums in another order grow apart, so that after some twenty steps a first draw differs.
    assert np.array(logs[0][:10]) == pytest.approx(np.array(logs[1][:10]), abs=1e-4)
    assert manifests.read_manifest(two / "models" / "policy").counts["processes"] == 2
    assert not (two / ".train.ray").exists()


@pytest.mark.slow
@pytest.mark.fault("a process of a training killed", "continues")
def test_a_killed_process_changes_nothing(two, workspace, spawn):
    """All processes start again at the newest checkpoint: the result is bit-identical, the loss is in the log."""
    root = workspace("killed")
    process = spawn("stage", "train", "--workspace", root, *TWO)
    kill_second(root, process, losses=0)
    assert process.wait(240) == 0, process.log.read_text()
    assert digest(root) == digest(two)
    assert any(note.startswith("train: process 1 was lost") for note in notes(root))
    assert count_retried(read_events(root)) == 1


@pytest.mark.slow
@pytest.mark.fault("a process of a training killed too often", "one line")
def test_too_many_losses_are_one_line(two, workspace, spawn, reasonloop):
    """Exit code 1; the same command goes on, to the same weights."""
    root = workspace("lost")
    command = ("stage", "train", "--workspace", root, *TWO)
    process = spawn(*command, "--set", "execution.train_retries=0")
    kill_second(root, process, losses=0)
    assert process.wait(240) == 1
    said = " ".join(process.log.read_text().split())
    assert (
        "reasonloop: train: of 2 processes some were lost 1 times (execution.train_retries=0); run the same command again "
        "to resume"
    ) in said
    done = reasonloop(*command)
    assert done.returncode == 0, done.stderr
    assert digest(root) == digest(two)


def test_threads_take_one_process(refused, tmp_path):
    """Refused before any stage."""
    line = refused("run", "--workspace", tmp_path, *TWO, "--runner", "thread")
    assert "a training of 2 processes runs on Ray" in line


def test_more_processes_than_ray_has_room_for(monkeypatch):
    """Named before work: Ray would wait for ever."""
    nodes = [{"Resources": {"CPU": 2}}, {"Resources": {"CPU": 1}}]
    monkeypatch.setattr("flows.ray.nodes.living_nodes", lambda: nodes)
    check_resources(ExecutionParams(), processes=3)
    with pytest.raises(BadInputError, match="of 4 processes: Ray has room for 3"):
        check_resources(ExecutionParams(), processes=4)
