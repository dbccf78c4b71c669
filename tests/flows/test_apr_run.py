"""`reasonloop apr run`: stages, reuse, the compared models."""

import pytest

from pipeline_lib.stages.adaptive import ADAPTIVE
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import read_json
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import events_size, read_events

SETTINGS = ("--profile", "smoke", "--runner", "thread", "--set", "evaluate.resamples=200")


@pytest.fixture(scope="module")
def trained(reasonloop, tmp_path_factory):
    """The workspace of an uninterrupted run."""
    root = tmp_path_factory.mktemp("apr")
    done = reasonloop("apr", "run", "--workspace", root, *SETTINGS)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "parallel" in done.stdout
    return root


def digests(root):
    folders = Workspace(root).adaptive
    sealed = (folders.data, folders.parallel, folders.serial)
    return [manifests.read_manifest(folder).digest for folder in sealed]


def test_a_parallel_and_a_serial_model_are_compared(trained):
    """On the test problems, paired, after all stages in their order."""
    worked = [event["stage"] for event in read_events(trained) if event["event"] == "stage"]
    assert worked == [stage.name for stage in ADAPTIVE]
    metrics = read_json(Workspace(trained).adaptive.reports / "metrics.json")
    assert [model["kind"] for model in metrics["models"]] == ["parallel", "serial"]
    assert {model["problems"] for model in metrics["models"]} == {12}
    assert len(metrics["paired"]) == 1


def test_finished_stages_are_reused(reasonloop, trained):
    """The same command again trains and draws nothing."""
    before, offset = digests(trained), events_size(trained)
    done = reasonloop("apr", "run", "--workspace", trained, *SETTINGS)
    assert done.returncode == 0, done.stderr
    work = [e["stage"] for e in read_events(trained, offset=offset) if e["event"] == "work"]
    assert set(work) <= {"adaptive-evaluate"}
    assert digests(trained) == before
