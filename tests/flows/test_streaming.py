"""Verdicts while sampling goes on: the same results as two passes."""

import shutil

import pytest

from pipeline_lib.store import manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.telemetry import read_events

SMOKE = ("--profile", "smoke", "--runner", "thread")


def work_of(root, label):
    """Places of the `work` events of a draw or its verdicts among all events."""
    events = read_events(root)
    return [place for place, event in enumerate(events) if event.get("label") == label]


def test_shards_are_judged_while_others_are_drawn(finished_run):
    """In a run the first verdicts come before the last paths, in a round and in an evaluation."""
    for draw in ("round-1", "evaluate-base"):
        sampled = work_of(finished_run, f"sample {draw}")
        judged = work_of(finished_run, f"verify {draw}")
        assert len(sampled) == len(judged) > 1
        assert min(judged) < max(sampled)


@pytest.mark.slow
def test_two_passes_give_the_same(finished_run, reasonloop, tmp_path):
    """Stages `sample` and `verify` alone: equal shards and tables, and all paths before a verdict."""
    for part in ("data/problems", "models/base"):
        shutil.copytree(finished_run / part, tmp_path / part)
    for stage in ("sample", "verify"):
        done = reasonloop("stage", stage, "--workspace", tmp_path, *SMOKE)
        assert done.returncode == 0, done.stderr
    sampled, judged = work_of(tmp_path, "sample round-1"), work_of(tmp_path, "verify round-1")
    assert max(sampled) < min(judged)
    one, other = (Workspace(root).round_folders(1) for root in (finished_run, tmp_path))
    for table, two_pass in ((one.paths, other.paths), (one.verdicts, other.verdicts)):
        assert contents(table) == contents(two_pass)


def contents(table):
    """Digest and key of the table and of each shard, by the manifest's name."""
    found = {
        path.name: manifests.read_manifest(table, manifest_name=path.name)
        for path in table.glob(f"*{manifests.MANIFEST_NAME}")
    }
    return {name: (manifest.digest, manifest.key) for name, manifest in found.items()}
