"""Runs on real Ray clusters: two nodes, deaths of nodes, nodes that cannot work, pretended GPUs."""

import json
import os
import shutil
import subprocess
import time

import pytest

from benchmarks.lib.repository import REPOSITORY
from flows.ray.node_probe import PACKAGES
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.telemetry import count_retried, events_size, read_events
from tests.flows.ray_nodes import RayNodes, end
from tests.flows.test_golden import digests, untimed

RUN_TIMEOUT_S = 600
NOTICED_S = 120
SMOKE = ("--profile", "smoke")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")


@pytest.fixture
def nodes(reasonloop, tmp_path_factory):
    """A cluster without nodes; those that a test adds are killed at its end."""
    environment = {
        name: value
        for name, value in reasonloop.environment.items()
        # Workers get the kernels and the server from the driver, not from their node.
        if not name.startswith(("PREFECT", "ATEN", "MKL", "ONEDNN"))
    }
    # Short: names of sockets have at most 107 bytes.
    found = RayNodes(folder=tmp_path_factory.mktemp("ray"), environment=environment)
    yield found
    found.stop()


@pytest.fixture
def start(reasonloop, nodes):
    """Start the command on the cluster, in a process that is killed at the end of the test."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            reasonloop.argv(*arguments, "--ray-address", nodes.address),
            cwd=REPOSITORY,
            env={**reasonloop.environment, **nodes.access},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        end(process)


def finish(process):
    """Exit code and errors of a command that ends by itself."""
    _, errors = process.communicate(timeout=RUN_TIMEOUT_S)
    return process.returncode, errors


def begun(workspace, stage, pids):
    """Pieces of a stage that workers among ``pids`` have begun and not ended."""
    events = [e for e in read_events(workspace) if e.get("stage") == stage]
    ended = {(e["key"], e["done"]) for e in events if e["event"] == "work"}
    return [
        (e["key"], e["done"])
        for e in events
        if e["event"] == "begin" and e["pid"] in pids and (e["key"], e["done"]) not in ended
    ]


def wait_until_begun(process, workspace, stage, node):
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while not begun(workspace, stage, node.worker_pids()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"no shard of {stage} began on {node.folder}"
        time.sleep(0.02)


def metrics(workspace):
    found = untimed(read_json(workspace / "reports" / "metrics.json"))
    return {name: value for name, value in found.items() if name != "compute"}


def results(workspace):
    """Digests and metrics, of rounds and evaluation."""
    return digests(workspace), metrics(workspace)


def done_once(workspace):
    """True if no piece of work was done twice."""
    ended = [
        (e["key"], e.get("label"), e["done"])
        for e in read_events(workspace)
        if e["event"] == "work" and e.get("unit") != "step" and e["stage"] != "report"
    ]
    return len(ended) == len(set(ended))


def test_two_nodes_and_a_death_in_mid_sampling(finished_run, nodes, start, tmp_path):
    """Two nodes with temporary folders of their own give the results of a local run, though one of
    them is killed while it draws: its shard is drawn by the other, once, and counted in the report.
    """
    head, other = nodes.add(), nodes.add("--node-ip-address=127.0.0.2")
    process = start("run", "--workspace", tmp_path, *SMOKE)
    wait_until_begun(process, tmp_path, "sample", other)
    other.kill()
    code, errors = finish(process)
    assert code == 0, errors
    assert results(tmp_path) == results(finished_run)
    events = read_events(tmp_path)
    assert count_retried(events) >= 1
    assert done_once(tmp_path)
    pids = {e["pid"] for e in events if e["event"] == "begin" and e["stage"] == "sample"}
    assert pids & head.worker_pids()
    assert pids & other.worker_pids()
    page = (tmp_path / "reports" / "report.html").read_text("utf-8")
    row = page.partition("retried (all stages)")[2][:200]
    assert f">{count_retried(events)}<" in row, row


def test_two_nodes_with_two_pretended_gpus(finished_run, nodes, start, tmp_path):
    """At most two sampling shards at a time, each on a device of its own; verifiers see none; both
    trainings take one in a worker. The results are those of a local run.
    """
    nodes.add(cpus=4, gpus=2)
    process = start("run", "--workspace", tmp_path, *SMOKE)
    code, errors = finish(process)
    assert code == 0, errors
    assert results(tmp_path) == results(finished_run)
    events = read_events(tmp_path)
    begins = [e for e in events if e["event"] == "begin"]
    devices = {
        stage: {e["devices"] for e in begins if e["stage"] == stage}
        for stage in ("sample", "verify", "train", "control")
    }
    assert devices["sample"] == {"0", "1"}
    assert devices["verify"] == {""}
    assert devices["train"] <= {"0", "1"}
    assert devices["control"] <= {"0", "1"}
    held = {}
    for event in events:
        if event.get("label", "").startswith("sample "):
            if event["event"] == "begin":
                assert event["devices"] not in held.values()
                held[event["label"], event["done"]] = event["devices"]
                assert len(held) <= 2
            elif event["event"] == "work":
                del held[event["label"], event["done"]]
    assert not held


@as_root
def test_nodes_that_cannot_work_are_named(nodes, start, tmp_path):
    """One that does not see the workspace, and one with another version of a library: one line, before
    any work begins.
    """
    nodes.add()
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    blind = nodes.add("--node-ip-address=127.0.0.2", hidden=[hidden])
    code, errors = finish(start("run", "--workspace", hidden / "run", *SMOKE))
    assert code == 1, errors
    assert "node 127.0.0.2 (" in errors
    assert f"does not share the workspace {hidden / 'run'}" in errors
    assert errors.count("\n") == 1
    assert events_size(hidden / "run") == 0
    assert not list((hidden / "run").rglob(".probe-*"))
    doctor = start("doctor", "--json", "--workspace", hidden / "run")
    nodes_found = {one["what"]: one for one in json.loads(doctor.communicate()[0])["findings"]}[
        "Ray nodes"
    ]
    assert nodes_found["ok"] is False
    assert "node 127.0.0.2 (" in nodes_found["detail"]
    blind.kill()
    other = tmp_path / "site" / "sympy-0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: sympy\nVersion: 0.1\n", "utf-8")
    nodes.add("--node-ip-address=127.0.0.3", variables={"PYTHONPATH": str(other.parent)})
    deadline = time.monotonic() + NOTICED_S
    code, errors = finish(start("run", "--workspace", tmp_path / "run", *SMOKE))
    while "node 127.0.0.2 (" in errors and time.monotonic() < deadline:
        # Ray still lists the node that was killed.
        code, errors = finish(start("run", "--workspace", tmp_path / "run", *SMOKE))
    assert code == 1, errors
    assert "node 127.0.0.3 (" in errors
    assert "has sympy 0.1, and this machine" in errors
    assert errors.count("\n") == 1
    assert events_size(tmp_path / "run") == 0


def test_what_no_node_has_is_refused(nodes, start, tmp_path):
    """GPUs, CPUs and memory beyond those of the largest node: one line with the key, before any work."""
    nodes.add()
    for setting, words in (
        (
            "sample.num_gpus=1",
            "execution.resources.sample.num_gpus=1: the largest node of Ray has 0",
        ),
        (
            "verify.num_cpus=3",
            "execution.resources.verify.num_cpus=3: the largest node of Ray has 1",
        ),
        ("train.memory_mb=90000000", "execution.resources.train.memory_mb=9e+07: the largest"),
    ):
        wanted = f"execution.resources.{setting}"
        code, errors = finish(start("run", "--workspace", tmp_path, *SMOKE, "--set", wanted))
        assert code == 2, errors
        assert words in errors
        assert errors.count("\n") == 1
        assert events_size(tmp_path) == 0


@as_root
def test_a_node_without_the_code_gets_it_and_dies_in_mid_verification(
    reasonloop, finished_run, nodes, start, recorded_paths, tmp_path
):
    """The packages are shipped to a node that does not have them. Killed while it verifies, it loses
    nothing: all verdicts are those of a local run.
    """
    nodes.add()
    other = nodes.add(
        "--node-ip-address=127.0.0.2", hidden=[REPOSITORY / name for name in PACKAGES]
    )
    for name in ("local", "cluster"):
        shutil.copytree(recorded_paths, tmp_path / name)
    done = reasonloop("stage", "verify", "--workspace", tmp_path / "local", "--runner", "thread")
    assert done.returncode == 0, done.stderr
    process = start("stage", "verify", "--workspace", tmp_path / "cluster")
    wait_until_begun(process, tmp_path / "cluster", "verify", other)
    other.kill()
    code, errors = finish(process)
    assert code == 0, errors
    local, cluster = (
        manifests.read_manifest(Workspace(tmp_path / name).round_folders(1).verdicts)
        for name in ("local", "cluster")
    )
    assert cluster.files == local.files
    assert count_retried(read_events(tmp_path / "cluster")) >= 1
    assert done_once(tmp_path / "cluster")
