"""`execution.report_to`, as a user sets it: it starts nothing again."""

import shutil

import pytest

SMOKE = ("--profile", "smoke", "--runner", "thread")


@pytest.mark.slow
def test_a_finished_training_is_not_done_again_for_a_tracker(finished_run, reasonloop, tmp_path):
    """No key depends on it: with dvclive the stage finds its result, and nothing is told."""
    workspace = tmp_path / "run"
    shutil.copytree(finished_run, workspace)
    manifest = workspace / "models" / "policy" / "manifest.json"
    before = manifest.stat().st_mtime_ns
    told = ("--set", "execution.report_to=[dvclive]")
    done = reasonloop("stage", "train", "--workspace", workspace, *SMOKE, *told)
    assert done.returncode == 0, done.stderr
    assert manifest.stat().st_mtime_ns == before
    assert not (workspace / "logs" / "trackers").exists()
