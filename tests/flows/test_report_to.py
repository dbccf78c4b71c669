"""`execution.report_to` invalidates no result."""

import shutil

import pytest

SMOKE = ("--profile", "smoke", "--runner", "thread")


@pytest.mark.slow
def test_a_finished_training_is_not_repeated_for_a_tracker(finished_run, reasonloop, tmp_path):
    """No key depends on it: with dvclive the stage reuses its result and logs nothing."""
    workspace = tmp_path / "run"
    shutil.copytree(finished_run, workspace)
    manifest = workspace / "models" / "policy" / "manifest.json"
    before = manifest.stat().st_mtime_ns
    tracker_args = ("--set", "execution.report_to=[dvclive]")
    done = reasonloop("stage", "train", "--workspace", workspace, *SMOKE, *tracker_args)
    assert done.returncode == 0, done.stderr
    assert manifest.stat().st_mtime_ns == before
    assert not (workspace / "logs" / "trackers").exists()


@pytest.mark.parametrize(
    "command",
    [
        "apr train none --kind serial --output model",
        "apr rl none --data none --output model",
        "prr train none --output model",
        "pacore train none none.jsonl --output model",
        "classmate train none --output model --set classmate.classmate_reward_weight=0",
    ],
)
def test_every_training_refuses_an_unknown_tracker(refused, command, tmp_path, monkeypatch):
    """In one line, before its data and model are read."""
    monkeypatch.chdir(tmp_path)
    line = refused(*command.split(), "--set", "execution.report_to=[bells]")
    assert line.startswith("reasonloop: execution.report_to: bells is unknown")
    assert not list(tmp_path.iterdir())
