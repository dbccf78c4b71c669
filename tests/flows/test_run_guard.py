"""A flow that no command starts is admitted, tagged, followed and cleaned up after like one that is."""

import os
import signal

import httpx
import pytest
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterTags,
    LogFilter,
    LogFilterFlowRunId,
)

from flows.run.guard import workspace_tag
from pipeline_lib.store import manifests
from pipeline_lib.store.files import digest_file
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.telemetry import events_size, read_events
from tests.waiting import until

FLOW = """
import pathlib, sys
from flows.post_training import post_training
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.stage import Run

params = load_params(profile="smoke", overrides=["execution.runner=thread"])
post_training(Run(root=pathlib.Path(sys.argv[1]), params=params))
"""
"""Enters the flow as a worker does, without the command."""


@pytest.fixture
def start_flow(reasonloop, tmp_path):
    """Start the flow in a process of its own, which is killed at the end of the test."""
    started = []

    def start(workspace):
        with (tmp_path / "stderr").open("wb") as output:
            process = reasonloop.forks.python(
                ["-c", FLOW, str(workspace)],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def runs_on(client, workspace):
    """The flow runs on a workspace, oldest first."""
    tags = FlowRunFilterTags(all_=[workspace_tag(Workspace(workspace))])
    filter_ = FlowRunFilter(tags=tags)
    return client.read_flow_runs(flow_run_filter=filter_, limit=200, sort="START_TIME_ASC")


def first_run(client, workspace):
    """The run of the whole loop that made a workspace; later tests run it again."""
    return next(run for run in runs_on(client, workspace) if "post-training" in run.name)


def tree(root):
    return {path: digest_file(path) for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.fault("second run without the command", "refused")
def test_a_workspace_in_use_is_left_alone(finished_run, client, start_flow, tmp_path):
    """The state of the second run has the lease's line, and no file has changed."""
    with Workspace(finished_run).lease():
        before = tree(finished_run)
        process = start_flow(finished_run)
        assert process.wait(timeout=120) == 1
        assert tree(finished_run) == before
    assert "in use by process" in (tmp_path / "stderr").read_text("utf-8")
    states = [run.state for run in client.read_flow_runs(limit=50, sort="START_TIME_DESC")]
    refused = [state for state in states if state.is_failed()]
    assert any(f"in use by process {os.getpid()}" in state.message for state in refused)


@pytest.mark.slow
@pytest.mark.fault("SIGKILL in training, without the command", "resumes")
def test_killed_its_runs_are_crashed_by_the_next(
    finished_run, reasonloop, client, start_flow, tmp_path
):
    """SIGKILL in mid-training leaves a run `Running`; a command is refused while it works, and then
    goes on from the checkpoint, marks the run as crashed, and ends with the digests of an unbroken
    run.
    """
    process = start_flow(tmp_path)
    until(lambda: any(e.get("done", 0) > 110 for e in read_events(tmp_path)), process=process)
    os.killpg(process.pid, signal.SIGSTOP)  # it would end its training while the command starts
    arguments = ("run", "--workspace", tmp_path, "--profile", "smoke", "--runner", "thread")
    refused = reasonloop(*arguments)
    assert refused.returncode == 1
    assert f"in use by process {process.pid}" in refused.stderr
    assert refused.stderr.count("\n") == 1
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    begin = events_size(tmp_path)
    [first] = runs_on(client, tmp_path)
    assert first.state.is_running()
    done = reasonloop(*arguments)
    assert done.returncode == 0, done.stderr
    steps = [
        event["done"]
        for event in read_events(tmp_path, offset=begin)
        if event.get("stage") == "bootstrap" and event["event"] == "work"
    ]
    assert steps[0] in {101, 201, 301}
    killed = client.read_flow_run(first.id)
    assert killed.state.is_crashed()
    assert "next run of the workspace" in killed.state.message
    assert all(run.state.is_completed() for run in runs_on(client, tmp_path) if run.id != first.id)
    for folder in (Workspace(tmp_path).base, Workspace(tmp_path).evaluation_result):
        unbroken = finished_run / folder.relative_to(tmp_path)
        assert manifests.read_manifest(folder).digest == manifests.read_manifest(unbroken).digest


def test_the_work_is_in_the_log_and_in_artifacts(finished_run, client):
    """A line a stage in the log of the run, a progress artifact a draw and a training, all at 100 %."""
    top = first_run(client, finished_run)
    assert {"countdown", "grpo", "seed-7"} <= set(top.tags)
    logs = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[top.id])), limit=200)
    lines = [log.message for log in logs]
    for stage in ("prepare", "bootstrap", "sample round-1", "train round-1", "evaluate", "report"):
        assert sum(line.startswith(f"{stage}: ") for line in lines) == 1, stage
    found = client.read_artifacts(
        artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[top.id])), limit=50
    )
    progress = {one.description: one.data for one in found if one.type == "progress"}
    draws = {
        f"{part} evaluate-{name}" for part in ("sample", "verify") for name in ("base", "trained")
    }
    assert {
        "bootstrap",
        "train",
        "control",
        "sample round-1",
        "verify round-1",
    } | draws <= progress.keys()
    assert set(progress.values()) == {100}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(
            *(("execution.report_to=[mlflow]",), 2, "mlflow"),
            marks=pytest.mark.fault("tracker that is not installed", "refused"),
            id="tracker",
        ),
        pytest.param(
            *(("execution.runner=ray",), 1, "RAY_ADDRESS=127.0.0.1:9: no answer"),
            marks=pytest.mark.fault("dead RAY_ADDRESS", "refused"),
            id="ray",
        ),
        pytest.param(
            *(("prepare.dataset=gsm8k", "prepare.source={tmp}"), 2, "gsm8k"),
            marks=pytest.mark.fault("data set too small for the splits", "refused"),
            id="data",
        ),
    ],
)
def test_what_is_missing_is_said_before_any_work(reasonloop, tmp_path, arguments, code, words):
    """A package, a cluster, problems: one line, and not a single event."""
    (tmp_path / "train.jsonl").write_text('{"question": "1+1?", "answer": "#### 2"}\n', "utf-8")
    workspace = tmp_path / "run"
    settings = [part for one in arguments for part in ("--set", one.format(tmp=tmp_path))]
    done = reasonloop.forks.run(
        reasonloop.argv("run", "--workspace", workspace, "--profile", "smoke", *settings)[1:],
        environment={"RAY_ADDRESS": "127.0.0.1:9"} if "execution.runner=ray" in arguments else {},
        timeout_s=120,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert events_size(workspace) == 0


def test_the_report_is_a_page_of_the_server(finished_run, client, prefect_server):
    """The artifact links to it; it has no origin and no scripts; other workspaces are unknown."""
    top = first_run(client, finished_run)
    found = client.read_artifacts(
        artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[top.id])), limit=50
    )
    [link] = [one.data for one in found if one.key == "report"]
    url = link.partition("(")[2].rstrip(")")
    assert url.startswith(f"{prefect_server.ui_url}/workspaces/")
    page = httpx.get(url)
    assert page.text == (finished_run / "reports" / "report.html").read_text("utf-8")
    assert page.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    for other in (url.replace("workspaces/", "workspaces/0"), f"{url}/../metrics.json"):
        assert httpx.get(other).status_code == 404
    assert httpx.get(f"{prefect_server.api_url}/health").status_code == 200
