"""Compute of loop and control, from manifests and events."""

import pytest

from pipeline_lib.store import manifests, shards
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.wording import EMPTY
from pipeline_lib.systems.loop.compute import cost_table, read_compute, spent_table
from pipeline_lib.telemetry import record_work

COUNTS = {"trained_tokens": 100, "drawn_tokens": 5, "trained_weights": 7, "all_weights": 1000}


def record(root, stage, key):
    record_work(root, stage, done=1, total=1, key=key, cpu_seconds=2.0, gpu_seconds=0.5)


@pytest.fixture
def workspace(tmp_path):
    """One sampled and verified table, a policy and a control, each sealed and recorded."""
    place = Workspace(tmp_path)
    draw = place.round_folders(1)
    for table, kind, counts in (
        (draw.paths, "paths", {"prompt_tokens": 30, "completion_tokens": 20}),
        (draw.verdicts, "verdicts", {}),
    ):
        shards.write_shard(table, 0, [{"id": "a"}], kind=kind, key=kind, counts=counts)
        shards.seal_table(table, 1, kind=kind, key=kind)
        record(tmp_path, kind, kind)
    for folder, key in ((place.policy(1, rounds=1), "policy"), (place.control, "control")):
        folder.mkdir(parents=True)
        (folder / "model").write_text(key)
        manifests.seal(folder, kind="policy", key=key, counts=COUNTS)
        record(tmp_path, key, key)
    return place


def test_sums_of_a_workspace_that_did_all_work(workspace):
    """Three recorded parts of 2 CPU seconds; 30 + 20 sampled tokens beside the 5 of the training."""
    found = read_compute(workspace, rounds=1, drawn=[], control=True)
    assert found["loop"] == {
        "cpu_seconds": 6.0,
        "gpu_seconds": 1.5,
        "trained_tokens": 100,
        "drawn_tokens": 55,
        "trained_weights": 7,
        "all_weights": 1000,
    }
    assert spent_table(found).rows[-1] == ("trained weights", *["7 of 1,000 (0.7 %)"] * 2)
    assert found["control"]["cpu_seconds"] == 2.0
    assert found["tokens"]["sample"] == {"prompt": 30, "completion": 20}
    assert read_compute(workspace, rounds=1, drawn=[], control=False)["control"] is None


def test_tokens_of_a_model_that_judges(workspace):
    """By the counts of its verdicts: of the round's under verify, of an evaluation's with those that are drawn."""
    found = read_compute(workspace, rounds=1, drawn=[], control=False)
    assert [*found["tokens"]] == ["sample"]
    evaluated = workspace.evaluation("base-test")
    for table, kind, counts in (
        (workspace.round_folders(1).verdicts, "verdicts", {"prompt_tokens": 9}),
        (evaluated.paths, "paths", {"prompt_tokens": 30, "completion_tokens": 20}),
        (evaluated.verdicts, "verdicts", {"prompt_tokens": 90, "completion_tokens": 3}),
    ):
        shards.write_shard(table, 0, [{"id": "a"}], kind=kind, key=kind, counts=counts)
        shards.seal_table(table, 1, kind=kind, key=kind)
    found = read_compute(workspace, rounds=1, drawn=["base-test"], control=False)
    assert found["tokens"]["verify"] == {"prompt": 9, "completion": 0}
    assert found["tokens"]["evaluate"] == {"prompt": 120, "completion": 23}


def test_seconds_of_work_done_elsewhere_are_unknown(workspace):
    """Without its events, as after `dvc pull`, a part has tokens but no seconds."""
    for file in (workspace.root / "telemetry").iterdir():
        file.unlink()
    record(workspace.root, "control", "control")
    found = read_compute(workspace, rounds=1, drawn=[], control=True)
    assert [*found["loop"].values()] == [None, None, 100, 55, 7, 1000]
    assert found["control"]["cpu_seconds"] == 2.0


def test_costs_have_totals_and_stages_without_tokens_a_dash():
    """2 s and 3 s of which one second overlaps; verifying has no tokens, which is not zero tokens."""
    table = cost_table(
        {
            "seconds": {"sample": 2.0, "verify": 3.0, "total": 4.0},
            "tokens": {"sample": {"prompt": 5, "completion": 7}},
            "peak_mib": {"sample": 900, "verify": 100},
        }
    )
    cells = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in table.rows]
    assert cells == [
        ["sample", "2.0 s", "5", "7", "900 MiB"],
        ["verify", "3.0 s", EMPTY, EMPTY, "100 MiB"],
        ["total", "4.0 s", "5", "7", "900 MiB"],
    ]
