"""Deployments on a real server with a real process worker: registered, run, refused, cleaned up after."""

import datetime as dt
import json
import os
import pathlib
import signal
import socketserver
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
import psutil
import pytest
import yaml

from benchmarks.lib.repository import REPOSITORY
from flows.server.server import HEARTBEAT_S
from pipeline_lib.params_file import load_params
from pipeline_lib.store import manifests
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.telemetry import events_size
from tests.flows.conftest import SAME_KERNELS
from tests.flows.deployed_site import RUN_S, Mail, Posts, Site, work_done
from tests.flows.dvc_repositories import open_repository
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PENDING_S = 180
"""Of the automation for runs that a worker has claimed and not started."""
CANARY = "canary-0b7e4d"
"""Part of the webhook's address, and the value of a secret variable."""
SETTINGS = [
    *("execution.runner=thread", "execution.workers=1", "sample.shard_size=2"),
    *("prepare.test_problems=8", "evaluate.resamples=100", "train.control=false"),
]
"""Small, with many shards: 16 of sampling."""
COMMAND = ("--profile", "smoke", *(part for one in SETTINGS for part in ("--set", one)))
SOURCES = (
    *("reasonloop", "flows", "tasks", "pipeline_lib", ".dvc", "dvc.yaml", "requirements/app.txt"),
    *(".gitignore", "data/raw/.gitignore"),
)


@pytest.fixture(scope="module")
def receivers():
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), Posts),
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail),
    ]
    threads = []
    for server in servers:
        server.posted = []
        server.daemon_threads = True
        threads.append(threading.Thread(target=server.serve_forever))
        threads[-1].start()
    yield servers
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def site(tmp_path_factory, receivers):
    """An empty server, stopped at the end with all workers."""
    receiver, mail = receivers
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT", "RAY", "REASONLOOP_"))
    }
    environment |= SAME_KERNELS | {
        "PYTHONPATH": str(REPOSITORY),
        "REASONLOOP_STATE": str(tmp_path_factory.mktemp("state")),
        "PREFECT_HOME": str(tmp_path_factory.mktemp("prefect-home")),
        "REASONLOOP_WEBHOOK_URL": f"http://127.0.0.1:{receiver.server_port}/plain/{CANARY}",
        "REASONLOOP_SLACK_URL": f"http://127.0.0.1:{receiver.server_port}/slack/{CANARY}",
        "REASONLOOP_EMAIL_URL": (
            f"mailto://127.0.0.1:{mail.server_address[1]}?from=loop@example.org"
            f"&to=person@example.org&mode=insecure&name={CANARY}"
        ),
        "HF_TOKEN": CANARY,
    }
    found = Site(tmp_path_factory.mktemp("worker"), environment, receiver, mail)
    assert found.command("server", "start").returncode == 0
    try:
        yield found
    finally:
        while found.workers:
            found.stop_worker()
        found.command("server", "stop")


@pytest.fixture
def registered(site):
    site.deploy()
    return site


@pytest.fixture
def worker(registered):
    """A site with a worker."""
    registered.start_worker()
    yield registered
    if registered.workers:
        registered.stop_worker()


@pytest.fixture(scope="module")
def unbroken(site):
    """The workspace of an uninterrupted run by the command."""
    root = site.folder / "unbroken"
    done = site.command("run", "--workspace", root, *COMMAND)
    assert done.returncode == 0, done.stderr
    return root


def smoke(workspace: pathlib.Path | str) -> dict[str, Any]:
    return {"workspace": str(workspace), "profile": "smoke", "overrides": SETTINGS}


def results(root: pathlib.Path) -> list[str]:
    workspace = Workspace(root)
    folders = (workspace.base, workspace.policy(1, rounds=1), workspace.evaluation_result)
    return [manifests.read_manifest(folder).digest for folder in folders]


def edited(site: Site, name: str, **changes: Any) -> pathlib.Path:
    """prefect.yaml with other values for one deployment."""
    content = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text("utf-8"))
    [found] = [one for one in content["deployments"] if one["name"] == name]
    found |= changes
    path = site.folder / "prefect.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_deploy_again_adds_nothing(site):
    """A dry run writes nothing; an empty server gets all; a second time there is no more, a schedule made in
    the UI and a disabled automation stay; `--remove` leaves none.
    """
    empty = site.listed()
    assert "to register post-training/nightly" in site.deploy("--dry-run")
    assert site.listed() == empty
    site.deploy()
    once = site.listed()
    assert {name: len(found) for name, found in once.items()} == {
        "deployments": 4,
        "automations": 4,
        "pools": 1,
        "blocks": 3,
    }
    [nightly] = [one for one in once["deployments"] if one["name"] == "nightly"]
    daily = {"schedule": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}, "active": True}
    assert site.call("POST", f"/deployments/{nightly['id']}/schedules", json=[daily]).is_success
    first = once["automations"][0]["id"]
    assert site.call("PATCH", f"/automations/{first}", json={"enabled": False}).is_success
    site.deploy("--schedule", "evaluate=0 8 * * 1 Europe/Berlin")
    again = site.listed()
    assert {name: [one["id"] for one in found] for name, found in again.items()} == {
        name: [one["id"] for one in found] for name, found in once.items()
    }
    crons = {
        one["name"]: [at["schedule"]["cron"] for at in one["schedules"]]
        for one in again["deployments"]
    }
    assert crons == {
        "nightly": ["0 2 * * *"],
        "weekly": ["0 8 * * 1"],
        "on-demand": [],
        "gated": [],
    }
    enabled = {one["id"]: one["enabled"] for one in again["automations"]}
    assert [name for name, is_on in enabled.items() if not is_on] == [first]
    site.deploy("--remove")
    assert not any(site.listed().values())


@pytest.mark.parametrize(
    "parameters",
    [
        {"run": {"root": "/tmp/x", "params": {"seed": -1}}},
        {"run": {"root": "/tmp/x", "params": {"train": {"steps": 0}}}},
        {"overrides": ["train.lr"]},
        {"overrides": 3},
    ],
    ids=["range", "nested range", "no assignment", "type"],
)
def test_the_server_refuses_what_the_flow_would(registered, parameters):
    """Values out of range or of another type never become a run."""
    answer = registered.asked("post-training/nightly", parameters)
    assert answer.status_code in {httpx.codes.CONFLICT, httpx.codes.UNPROCESSABLE_ENTITY}


def test_nightly_runs_from_its_schedule_and_alone(site, unbroken):
    """A schedule a minute or two ahead starts the run; it completes with the digests of the command,
    its params and report are artifacts; a second one at the same time is cancelled; the weekly
    evaluation of the same workspace completes.
    """
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=170)
    schedule = {"cron": f"{soon.minute} {soon.hour} * * *", "timezone": "UTC"}
    site.deploy("--file", edited(site, "nightly", schedules=[schedule], parameters=smoke("night")))
    site.start_worker()
    try:
        root = site.folder / "night"
        site.await_work(root, "bootstrap", 1)
        [working] = site.runs(
            flow_runs={"state": {"type": {"any_": ["RUNNING"]}}},
            deployments={"name": {"any_": ["nightly"]}},
        )
        second = site.start("post-training/nightly")
        assert site.awaited(second, "Cancelled")["state"]["type"] == "CANCELLED"
        done = site.awaited(working["id"], "Completed")
        assert done["auto_scheduled"]
        assert results(root) == results(unbroken)
        artifacts = site.artifacts(working["id"])
        assert f"Workspace `{root}`" in artifacts["params"]
        assert "runner: thread" in artifacts["params"]
        assert "report.html" in artifacts["report"]
        weekly = site.start("evaluate/weekly", **smoke(root))
        site.awaited(weekly, "Completed")
    finally:
        site.stop_worker()


def test_killed_with_its_worker(worker, unbroken):
    """SIGKILL of worker and flow in mid-sampling: within two heartbeats the automation marks the run
    and its subflow runs as crashed, and each channel has one notification without a secret; the
    next run goes on after the finished shards and ends with the digests of an unbroken run.
    """
    worker.receiver.posted.clear()
    worker.mail.posted.clear()
    root = worker.folder / "killed"
    run_id = worker.start("post-training/nightly", **smoke(root))
    worker.kill(worker.await_work(root, "sample", 2))
    killed_at = time.monotonic()
    below = [one["id"] for one in worker.below(run_id)]
    assert len(below) >= 2
    for one in [run_id, *below]:
        if worker.run(one)["state"]["type"] != "COMPLETED":
            state = worker.awaited(one, "Crashed", within_s=3 * HEARTBEAT_S)["state"]
            assert "no heartbeat" in state["message"]
    waited_s = time.monotonic() - killed_at
    print(f"crashed after {waited_s:.1f} s")
    assert waited_s < 2 * HEARTBEAT_S + 15  # the server looks every five seconds
    begin, before = events_size(root), work_done(root, "sample")
    worker.start_worker()
    again = worker.start("post-training/nightly", **smoke(root))
    worker.awaited(again, "Completed")
    after = work_done(root, "sample", offset=begin)
    # A shard whose manifest was written in the moment of the kill may lack its event.
    assert not set(before) & set(after)
    assert 15 <= len(before) + len(after) <= 16
    assert results(root) == results(unbroken)
    by_path = dict(worker.receiver.posted)
    assert len(worker.receiver.posted) == len(by_path) == 2, worker.receiver.posted
    plain = json.loads(by_path[f"/plain/{CANARY}"])
    assert plain["deployment"] == "nightly"
    assert plain["state"] == "Crashed"
    assert plain["run_id"] == run_id
    assert "post-training/nightly" in json.loads(by_path[f"/slack/{CANARY}"])["text"]
    assert len(worker.mail.posted) == 1
    assert "Crashed" in worker.mail.posted[0]
    assert not any(CANARY in body for body in by_path.values())


@pytest.mark.fault("worker killed before it starts a claimed run", "cleaned up")
def test_worker_killed_before_the_start(registered):
    """The run stays `Pending` until the automation marks it as crashed; another worker runs the next."""
    root = registered.folder / "claimed"
    registered.start_worker(die_at=("subprocess.Popen", "*prefect*"))
    run_id = registered.start("post-training/nightly", **smoke(root))
    assert registered.workers.pop().wait(timeout=RUN_S) == -signal.SIGKILL
    assert registered.run(run_id)["state"]["type"] == "PENDING"
    state = registered.awaited(run_id, "Crashed", within_s=PENDING_S + 30)["state"]
    assert "not started" in state["message"]
    assert not root.exists()
    registered.start_worker()
    registered.awaited(registered.start("post-training/nightly", **smoke(root)), "Completed")
    registered.stop_worker()


@pytest.mark.fault("run of a deployment cancelled in the UI", "cleaned up")
def test_cancelled_in_the_ui(worker, unbroken):
    """No process of the run is left, none of its subflow runs is `Running`, and the next run goes on."""
    root = worker.folder / "cancelled"
    run_id = worker.start("post-training/nightly", **smoke(root))
    holder = psutil.Process(worker.await_work(root, "sample", 2))
    family = [holder, *holder.children(recursive=True)]
    asked = worker.call("POST", f"/flow_runs/{run_id}/set_state", state={"type": "CANCELLING"})
    assert asked.json()["status"] == "ACCEPT"
    worker.awaited(run_id, "Cancelled", within_s=2 * HEARTBEAT_S)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    below = [one["id"] for one in worker.below(run_id)]
    until(
        lambda: "RUNNING" not in [worker.run(one)["state"]["type"] for one in below],
        timeout_s=3 * HEARTBEAT_S,
        poll_s=1,
    )
    done = worker.command("run", "--workspace", root, *COMMAND)
    assert done.returncode == 0, done.stderr
    assert results(root) == results(unbroken)


def test_no_address_is_kept_in_clear(registered):
    """The addresses and the token are in no file of server, worker or runs."""
    folders = [
        registered.state,
        registered.folder,
        pathlib.Path(registered.environment["PREFECT_HOME"]),
    ]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert any(path.name.endswith(".db") for path in files)
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


@pytest.fixture
def checkout(site, tmp_path):
    """The sources as a repository of their own, with a DVC remote and an upstream."""
    made = open_repository(tmp_path / "checkout", SOURCES, site.environment)
    params = load_params(profile="smoke", overrides=SETTINGS)
    text = yaml.safe_dump(params.model_dump(mode="json"))
    (made.folder / "params.yaml").write_text(text, encoding="utf-8")
    made.dvc("remote", "add", "-q", "-d", "store", str(tmp_path / "store"))
    made.commit("params")
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "upstream.git"], check=True)
    made.git("remote", "add", "origin", str(tmp_path / "upstream.git"))
    made.git("push", "-q", "-u", "origin", "HEAD")
    return made


def test_reproduce_commits_and_pushes(worker, checkout):
    """`reproduce/on-demand` runs the stages, and leaves a commit of both lock files alone, upstream, whose
    data is in the remote; a changed file is refused before any work.
    """
    asked = {"repository": str(checkout.folder), "targets": ["report"]}
    worker.awaited(worker.start("reproduce/on-demand", **asked), "Completed")
    committed = checkout.git("show", "--name-only", "--format=").split()
    assert committed == ["dvc.lock", "stages.lock.yaml"]
    assert checkout.git("status", "--porcelain") == ""
    assert checkout.git("rev-parse", "HEAD") == checkout.git("rev-parse", "@{upstream}")
    assert any((checkout.folder.parent / "store").rglob("*"))
    (checkout.folder / "params.yaml").write_text("seed: 8\n", encoding="utf-8")
    state = worker.awaited(worker.start("reproduce/on-demand", **asked), "Failed")["state"]
    assert "uncommitted changes" in state["message"]


def test_a_promotion_is_suspended_until_it_is_approved(worker, unbroken, tmp_path):
    """The run waits without a process and with the workspace free; the worker goes on after approval."""
    store = tmp_path / "released"
    run_id = worker.start("promote/gated", workspace=str(unbroken), releases=str(store))
    worker.awaited(run_id, "Suspended")
    process = psutil.Process(worker.workers[-1].pid)
    until(lambda: not process.children(recursive=True), timeout_s=RUN_S)
    with Workspace(unbroken).lease():
        answer = {"decision": "approve"}
        resumed = worker.call("POST", f"/flow_runs/{run_id}/resume", run_input=answer)
        assert resumed.json()["status"] == "ACCEPT"
    worker.awaited(run_id, "Completed")
    assert (store / "current" / "config.json").is_file()


def test_the_server_in_the_foreground(site, tmp_path):
    """One process, as a service manager wants it, which the other commands find and SIGTERM ends."""
    own = Site(
        tmp_path, site.environment | {"REASONLOOP_STATE": str(tmp_path)}, site.receiver, site.mail
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "server", "start", "--foreground"],
            cwd=tmp_path,
            env=own.environment,
            stdout=log,
            stderr=log,
        )
    try:
        running = f"running, process {process.pid},"
        until(lambda: running in own.command("server", "status").stdout)
        # It waits until the server answers.
        assert "http://127.0.0.1:" in own.command("server", "start").stdout
    finally:
        process.terminate()
    assert process.wait(timeout=60) is not None
    assert "not running" in own.command("server", "status").stdout
