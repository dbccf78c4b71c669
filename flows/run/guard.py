"""The guard of a run: what each flow enters first, whoever started it.

Besides taking the workspace it does what needs the Prefect run: it tags the run with its
workspace, ends earlier runs of that workspace whose process has died, and copies the work of tasks
and Ray workers into the run's log and progress artifacts.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

from prefect import get_client, tags
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.states import Crashed

from flows.run.admission import held, taken
from flows.run.failures import failure_line
from flows.server.polling import polled
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.stage import Run, System
from pipeline_lib.telemetry import WorkFollower, work_label

RUN_TAG = "reasonloop"
"""Tag of all runs, by which automations find them."""
REFRESH_S = 1.0
"""Shortest time between two updates of an artifact."""
_LIVE = [StateType.RUNNING, StateType.CANCELLING]


@contextmanager
def run_guard(system: System, run: Run) -> Iterator[None]:
    """Hold the workspace of ``run`` and show its work in Prefect for the block; nothing in a subflow.

    Raises:
        ReasonloopError: the workspace is in use, or a service does not answer.
    """
    own = _flow_run()
    if own.parent_task_run_id is not None:
        yield
        return
    with _explained(run.root), taken(run):
        tag, labels = workspace_tag(run.workspace), [RUN_TAG, *described(system, run)]
        _claim(own, tag, labels)
        progress = _PrefectProgress(run)
        with tags(tag, *labels), polled(progress.refresh, poll_s=REFRESH_S):
            yield


@contextmanager
def workspace_guard(workspace: Workspace) -> Iterator[None]:
    """Hold ``workspace`` for the block of a flow that reads a finished run, and tag the flow run.

    Raises:
        ReasonloopError: the workspace is in use.
    """
    with _explained(workspace.root), held(workspace.root):
        _claim(_flow_run(), workspace_tag(workspace), [RUN_TAG])
        yield


def _flow_run() -> FlowRun:
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    return context.flow_run


def _claim(own: FlowRun, workspace: str, labels: list[str]) -> None:
    """Tag the run with ``workspace`` and ``labels``, and end dead runs with the tag ``workspace``."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(own.id, tags=sorted({*own.tags, workspace, *labels}))
        crash_dead_runs(client, workspace, own.id)


@contextmanager
def _explained(root: pathlib.Path) -> Iterator[None]:
    """Failures of the disk, of Ray or of a server as one line, which becomes the run's state."""
    try:
        yield
    except Exception as error:
        line = None if isinstance(error, ReasonloopError) else failure_line(error, root=root)
        if line is None:
            raise
        raise ReasonloopError(line) from error


def described(system: System, run: Run) -> list[str]:
    """Tags to look for runs by: data set and method, or the like; seed."""
    return [*system.labels(run.params), f"seed-{run.params.seed}"]


def workspace_tag(workspace: Workspace) -> str:
    """The tag of all runs on a workspace. The inode tells apart equal paths of two machines."""
    root = workspace.root.resolve()
    return f"workspace {root} {root.stat().st_ino:x}"


def crash_dead_runs(client: SyncPrefectClient, tag: str, own: UUID) -> None:
    """Mark all other runs with ``tag`` that the server lists as running as crashed.

    Run ``own`` holds the lease, so their processes have ended.
    """
    dead = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            tags=FlowRunFilterTags(all_=[tag]),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_LIVE)),
        )
    )
    for flow_run in dead:
        if flow_run.id != own:
            message = "its process has ended; found by the next run of the workspace"
            client.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)


class _PrefectProgress:
    """One log line per finished stage or draw, one progress artifact per draw and training."""

    def __init__(self, run: Run) -> None:
        self._work = WorkFollower(run.root)
        self._logger = get_run_logger()
        self._artifacts: dict[str, UUID] = {}

    def refresh(self) -> None:
        """Show the new events. A failure is logged: progress must not end a run."""
        try:
            self._show_new()
        except Exception:
            self._logger.warning("progress could not be shown", exc_info=True)

    def _show_new(self) -> None:
        percent: dict[str, float] = {}
        for event in self._work.read():
            if event["event"] == "work" and event["total"] > 1:
                percent[work_label(event)] = 100 * self._work.count(event) / event["total"]
            elif event["event"] == "stage":
                name = " ".join(filter(None, (event["stage"], event.get("draw"))))
                self._logger.info("%s: %.1f s", name, event["seconds"])
            elif event["event"] == "note":
                self._logger.warning("%s", event["text"])
        for label, value in percent.items():
            self._show(label, value)

    def _show(self, label: str, percent: float) -> None:
        if label in self._artifacts:
            update_progress_artifact(self._artifacts[label], progress=percent)
            return
        key = "".join(c if c.isalnum() else "-" for c in label.lower())
        created = create_progress_artifact(percent, key=key, description=label)
        self._artifacts[label] = cast("UUID", created)  # no event loop runs in this thread
