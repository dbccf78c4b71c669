"""The flow `latent` on a real Prefect server: data, training, evaluation, reuse."""

import pytest

from pipeline_lib.params.prr import PrrDataParams
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.prr.data.synthetic import build_synthetic
from pipeline_lib.systems.prr.stages import PRR
from pipeline_lib.telemetry import events_size, read_events

TINY = """
prr:
  model: {width: 16, heads: 2, hidden_multiple: 8, num_branches: 2, steps: 2}
  train: {steps: 4, batch_size: 8, checkpoint_every: 2, log_every: 1}
  evaluate: {batch_size: 4, pictures: 1}
"""


@pytest.fixture
def tiny(tmp_path):
    """A profile that takes a second, on two folders."""
    folders = [tmp_path / "one", tmp_path / "two"]
    made = PrrDataParams(task="ambiguous", train_puzzles=24, versions=1, test_examples=10)
    for seed, folder in enumerate(folders):
        build_synthetic(made, folder, seed=seed)
    path, names = tmp_path / "tiny.yaml", ", ".join(map(str, folders))
    path.write_text(f"{TINY}  data: {{task: folder, folder: [{names}]}}\n", encoding="utf-8")
    return path


def test_the_flow_and_its_stages(reasonloop, tiny, tmp_path):
    """One command runs all stages, logged by dvclive under a name; a stage alone repeats no step.

    The control has as many core passes: 4 steps of two branches, 8 of one.
    """
    root = tmp_path / "workspace"
    tracker_args = ("--set", "execution={report_to: [dvclive], run_name: night}")
    done = reasonloop("prr", "run", "--workspace", root, "--profile", tiny, *tracker_args)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "oracle (upper bound)" in done.stdout
    assert "one branch" in done.stdout
    worked = [event["stage"] for event in read_events(root) if event["event"] == "stage"]
    assert worked == [stage.name for stage in PRR.stages]
    folders = Workspace(root).prr
    digests = [manifests.read_manifest(f).digest for f in (folders.model, folders.reports)]
    assert manifests.read_manifest(folders.control).counts["steps"] == 8
    assert (folders.reports / "pictures" / "example-000.svg").is_file()
    assert manifests.read_manifest(folders.data).counts == {"train": 48, "test": 20}
    assert read_json(folders.reports / "summary.json")["problems"] == 20
    for name, steps in (("night-prr", 4), ("night-prr-control", 8)):
        assert read_json(folders.trackers / "dvclive" / name / "metrics.json")["step"] == steps

    offset = events_size(root)
    again = reasonloop("stage", "prr-train", "--workspace", root, "--profile", tiny)
    assert again.returncode == 0, again.stderr
    assert [e for e in read_events(root, offset=offset) if e["event"] == "work"] == []
    assert digests[0] == manifests.read_manifest(folders.model).digest


def test_a_folder_that_is_missing_is_one_line(reasonloop, tiny, tmp_path):
    """The message names the folder of the data and the remedy; exit code 2."""
    done = reasonloop(
        "prr", "run", "--workspace", tmp_path / "w", "--profile", tiny,
        "--set", "prr.data.task=folder", "--set", f"prr.data.folder={tmp_path / 'absent'}",
    )  # fmt: skip
    assert done.returncode == 2
    assert "absent: no such folder" in done.stderr.splitlines()[-1]
