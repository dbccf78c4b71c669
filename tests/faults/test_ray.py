"""Ray's processes or its driver die while a run samples."""

import signal
from collections.abc import Iterator

import pytest

from pipeline_lib.telemetry import read_events
from tests.faults.clusters import RunningCluster
from tests.faults.workspaces import assert_whole, copy_until, sealed_files

pytestmark = pytest.mark.slow
RAY = ("--runner", "ray")
ENDED_S = 120.0


@pytest.fixture
def running_cluster(reasonloop) -> Iterator[RunningCluster]:
    cluster = RunningCluster(reasonloop.environment)
    yield cluster
    cluster.end()


def sampled(root) -> int:
    return sum(e["event"] == "work" and e["stage"] == "sample" for e in read_events(root))


def resume(start, prefect_server, unbroken, root) -> None:
    """Run the same command again: nothing that is sealed is made again, and the run is whole."""
    sealed = sealed_files(root)
    again = start.run(root, *RAY)
    assert again.wait() == 0, again.stderr
    assert again.left_after(15) == []
    assert sealed.items() <= sealed_files(root).items()
    assert_whole(root, unbroken, prefect_server.api_url)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("raylet", marks=pytest.mark.fault("raylet of a local Ray killed", "one line")),
        pytest.param(
            "gcs_server",
            marks=pytest.mark.fault("control service of a local Ray killed", "one line"),
        ),
    ],
)
def test_local_ray(start, prefect_server, unbroken, tmp_path, name):
    """The command ends within two minutes and leaves no process."""
    root = tmp_path / "run"
    copy_until("sample", unbroken, root)
    run = start.run(root, *RAY)
    run.until(lambda: sampled(root))
    next(process for process in run.left() if process.name() == name).kill()
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "Ray" in run.stderr
    assert run.left_after(15) == []
    resume(start, prefect_server, unbroken, root)


@pytest.mark.fault("SIGKILL of the command while Ray samples", "resumes")
def test_driver_killed(start, prefect_server, unbroken, tmp_path):
    """Ray's processes end by themselves."""
    root = tmp_path / "run"
    copy_until("sample", unbroken, root)
    run = start.run(root, *RAY)
    run.until(lambda: sampled(root))
    run.process.kill()
    assert run.wait() == -signal.SIGKILL
    assert run.left_after(30) == []
    resume(start, prefect_server, unbroken, root)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(
            {"gcs_server"},
            marks=pytest.mark.fault("control service of a Ray cluster killed", "one line"),
        ),
        pytest.param(
            {"gcs_server", "raylet"},
            marks=pytest.mark.fault("a Ray cluster killed under the command", "one line"),
        ),
    ],
    ids=["control service", "node"],
)
def test_cluster_gone(start, prefect_server, running_cluster, unbroken, tmp_path, names):
    """The command ends within two minutes; without RAY_ADDRESS it resumes on a Ray of its own."""
    root = tmp_path / "run"
    copy_until("sample", unbroken, root)
    run = start.run(root, *RAY, RAY_ADDRESS=running_cluster.address)
    run.until(lambda: sampled(root))
    for process in running_cluster.processes():
        if process.name() in names:
            process.kill()
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "Ray" in run.stderr
    assert run.left_after(15) == []
    running_cluster.end()
    resume(start, prefect_server, unbroken, root)
