"""Ray's processes or its driver die while a run samples."""

import signal
from collections.abc import Iterator

import pytest

from tests.faults.clusters import RunningCluster

pytestmark = pytest.mark.slow
RAY = ("--runner", "ray")
ENDED_S = 120.0


@pytest.fixture
def running_cluster(reasonloop) -> Iterator[RunningCluster]:
    cluster = RunningCluster(reasonloop.environment)
    yield cluster
    cluster.end()


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
    run = start.sampling(root, unbroken, *RAY)
    next(process for process in run.left() if process.name() == name).kill()
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "Ray" in run.stderr
    assert run.left_after(15) == []
    start.resume(root, unbroken, prefect_server.api_url, *RAY)


@pytest.mark.fault("SIGKILL of the command while Ray samples", "resumes")
def test_driver_killed(start, prefect_server, unbroken, tmp_path):
    """Ray's processes end by themselves."""
    root = tmp_path / "run"
    run = start.sampling(root, unbroken, *RAY)
    run.process.kill()
    assert run.wait() == -signal.SIGKILL
    assert run.left_after(30) == []
    start.resume(root, unbroken, prefect_server.api_url, *RAY)


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
    run = start.sampling(root, unbroken, *RAY, RAY_ADDRESS=running_cluster.address)
    for process in running_cluster.processes():
        if process.name() in names:
            process.kill()
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "Ray" in run.stderr
    assert run.left_after(15) == []
    running_cluster.end()
    start.resume(root, unbroken, prefect_server.api_url, *RAY)
