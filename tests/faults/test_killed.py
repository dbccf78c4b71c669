"""SIGKILL of a run between two known states of the disk, in each stage."""

import signal

import pytest

from tests.faults.workspaces import (
    THREADS,
    assert_whole,
    copy_until,
    flow_runs,
    sealed_files,
)

pytestmark = pytest.mark.slow
RENAME, REMOVE = "os.rename", "shutil.rmtree"


@pytest.mark.parametrize(
    ("stage", "moment"),
    [
        pytest.param(
            "sample",
            (RENAME, "*/data/paths/part-00003.manifest.json"),
            marks=pytest.mark.fault("SIGKILL between a shard of paths and its manifest", "resumes"),
        ),
        pytest.param(
            "verify",
            (RENAME, "*/data/verdicts/part-00003.manifest.json"),
            marks=pytest.mark.fault("SIGKILL between verdicts and their manifest", "resumes"),
        ),
        pytest.param(
            "build",
            (RENAME, "*/data/.traindata.fresh/counts.json"),
            marks=pytest.mark.fault("SIGKILL in build", "resumes"),
        ),
        pytest.param(
            "train",
            (RENAME, "*/models/policy"),
            marks=pytest.mark.fault("SIGKILL before a trained policy gets its name", "resumes"),
        ),
        pytest.param(
            "train",
            (REMOVE, "*/models/.policy.work/*"),
            marks=pytest.mark.fault("SIGKILL before checkpoints are removed", "resumes"),
        ),
        pytest.param(
            "evaluate",
            (RENAME, "*/data/evaluation/trained/verdicts/part-00001.manifest.json"),
            marks=pytest.mark.fault("SIGKILL in evaluate, in a draw", "resumes"),
        ),
        pytest.param(
            "report",
            (RENAME, "*/reports/report.html"),
            marks=pytest.mark.fault("SIGKILL in report, between two files", "resumes"),
        ),
    ],
)
def test_killed(start, prefect_server, unbroken, tmp_path, stage, moment):
    """Everything sealed by then is kept as it is, the same command ends the run, and no process, no
    temporary file and no `Running` flow run is left.
    """
    root = tmp_path / "run"
    copy_until(stage, unbroken, root)
    killed = start.run(root, *THREADS, die_at=moment)
    assert killed.wait() == -signal.SIGKILL, killed.stderr
    assert killed.left_after(15) == []
    assert "Running" in flow_runs(prefect_server.api_url, root).values()
    sealed = sealed_files(root)
    resumed = start.run(root, *THREADS)
    assert resumed.wait() == 0, resumed.stderr
    assert sealed.items() <= sealed_files(root).items()
    assert_whole(root, unbroken, prefect_server.api_url)
