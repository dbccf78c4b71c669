"""Promotions that wait for an answer, found and answered through the API of the Prefect server."""

import json
import time
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.client.schemas.sorting import FlowRunSort
from prefect.input import RunInput
from prefect.states import Cancelled, Crashed

from flows.run.admission import is_held
from flows.run.guard import workspace_tag
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.store.workspace import Workspace

FLOW = "promote"
"""Name of the flow whose runs wait."""
_POLL_S = 0.5
Answer = Literal["approve", "reject"]


class Decision(RunInput):
    """The form of the pause."""

    decision: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run that waits for an answer."""

    run: FlowRun
    description: str
    """Text of its form, as Markdown."""

    @property
    def title(self) -> str:
        """First line of the description."""
        return self.description.partition("\n")[0].lstrip("# ")

    @property
    def is_suspended(self) -> bool:
        """True if its process has ended, and a worker will go on with it."""
        return self.run.deployment_id is not None


def waiting_offer(client: SyncPrefectClient, workspace: Workspace) -> Waiting | None:
    """The promotion of ``workspace`` that waits for an answer, if its form is complete."""
    found = (as_waiting(client, run) for run in _paused(client, workspace))
    return next(filter(None, found), None)


def as_waiting(client: SyncPrefectClient, run: FlowRun) -> Waiting | None:
    """``run`` with the text of its form; None if it does not wait, or its form is not complete yet."""
    if run.state is None or not run.state.is_paused():
        return None
    keys = run.state.state_details.run_input_keyset or {}
    try:
        # Saved last, so the form is complete.
        text = client.read_flow_run_input(run.id, keys["description"])
    except (KeyError, httpx.HTTPStatusError):
        return None
    return Waiting(run=run, description=json.loads(text))


def _paused(client: SyncPrefectClient, workspace: Workspace) -> list[FlowRun]:
    """Paused promotions of ``workspace``, newest first."""
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[FLOW])),
        flow_run_filter=FlowRunFilter(
            tags=FlowRunFilterTags(all_=[workspace_tag(workspace)]),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])),
        ),
        sort=FlowRunSort.START_TIME_DESC,
    )


def supersede(client: SyncPrefectClient, workspace: Workspace) -> None:
    """Cancel the promotions of ``workspace`` that wait, since a new one begins."""
    for run in _paused(client, workspace):
        state: State[None] = Cancelled(message="a later promotion of the workspace has begun")
        client.set_flow_run_state(run.id, state, force=True)


def answer(
    client: SyncPrefectClient, waiting: Waiting, decision: Answer, *, workspace: Workspace
) -> None:
    """Resume the run with ``decision``.

    Raises:
        ReasonloopError: its process has ended, it no longer waits, or the server refuses the answer.
    """
    if not waiting.is_suspended and not is_held(workspace.root):
        state: State[None] = Crashed(message="its process has ended while it waited for an answer")
        client.set_flow_run_state(waiting.run.id, state, force=True)
        raise ReasonloopError(f"{workspace.root}: {state.message}; promote it again")
    result = client.resume_flow_run(waiting.run.id, run_input={"decision": decision})
    if result.status is not SetStateStatus.ACCEPT:
        reason = getattr(result.details, "reason", None)
        raise ReasonloopError(f"{workspace.root}: the promotion cannot be answered ({reason})")


def end_cancelled(run_id: UUID) -> None:
    """Mark a run as cancelled whose process a signal has ended, since Prefect marks it as crashed."""
    ended: State[None] = Cancelled(message="cancelled by a person")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run_id, ended, force=True)


def final_state(
    client: SyncPrefectClient, waiting: Waiting, *, patience_s: float
) -> State[None] | None:
    """The final state of the run; None if it has none after ``patience_s`` seconds."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        state = client.read_flow_run(waiting.run.id).state
        if state is not None and state.is_final():
            return state
        time.sleep(_POLL_S)
    return None
