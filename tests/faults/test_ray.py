"""Ray's processes or its driver die while a run samples."""

import pathlib
import shutil
import signal
import tempfile
from collections.abc import Iterator

import psutil
import pytest

from tests.flows.ray_nodes import RayNodes

pytestmark = pytest.mark.slow
RAY = ("--runner", "ray")
ENDED_S = 120.0


@pytest.fixture
def cluster(reasonloop) -> Iterator[RayNodes]:
    """One node, started as an operator does."""
    # Short: the paths of Ray's sockets are limited to 107 bytes.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ray-"))
    found = RayNodes(folder=folder, environment=reasonloop.environment)
    found.add("--node-ip-address=127.0.0.1", cpus=2)
    yield found
    found.stop()
    shutil.rmtree(folder, ignore_errors=True)


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
def test_cluster_gone(start, prefect_server, cluster, unbroken, tmp_path, names):
    """The command ends within two minutes; without RAY_ADDRESS it resumes on a Ray of its own."""
    root = tmp_path / "run"
    run = start.sampling(root, unbroken, *RAY, RAY_ADDRESS=cluster.address, **cluster.access)
    for process in psutil.Process(cluster.nodes[0].process.pid).children(recursive=True):
        if process.name() in names:
            process.kill()
    assert run.wait(ENDED_S) == 1
    assert run.stderr.count("\n") == 1, run.stderr
    assert "Ray" in run.stderr
    assert run.left_after(15) == []
    cluster.stop()
    start.resume(root, unbroken, prefect_server.api_url, *RAY)
