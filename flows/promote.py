"""Promotion: compare the candidate of a workspace with the released policy, pause, release.

A worker's run is suspended while it waits, so it keeps no process and no workspace; after the answer
the flow runs from its beginning, and is suspended again if candidate or figures have changed meanwhile.
Any other run waits in its process and keeps the workspace. Runs that wait are found and answered through
the API of the Prefect server.
"""

import json
import pathlib
import time
from typing import Literal

import httpx
from prefect import flow, get_client
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
from prefect.context import FlowRunContext
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.states import Cancelled, Completed, Crashed

from flows.run.admission import is_held
from flows.run.guard import workspace_guard, workspace_tag
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.publish.promotion.comparison import PromotionRequest, check_candidate
from pipeline_lib.store.workspace import Workspace
from tasks.promotion import compare_candidate, release_candidate

_FLOW = "promote"
_WAIT_S = 24 * 3600
_SUSPENDED_S = 14 * _WAIT_S
_POLL_S = 1
REJECTED = "rejected; nothing was released"
"""Message of the state of a run that a person has rejected."""
Answer = Literal["approve", "reject"]


class Decision(RunInput):
    """The form of the pause."""

    decision: Answer


@flow(name=_FLOW, flow_run_name="promotion")
def promote(
    *, workspace: pathlib.Path | None = None, releases: pathlib.Path | None = None
) -> State[None]:
    """Compare a candidate with the released policy on the same problems; release it once approved.

    Args:
        workspace: Folder of the finished run; relative to the worker's folder. Default: the repository.
        releases: Folder of the releases. Default: models/released of the workspace.
    """
    place = Workspace((workspace or pathlib.Path()).expanduser().resolve())
    store = (releases or place.releases).expanduser().resolve()
    check_candidate(place)
    with workspace_guard(place):
        _cancel_waiting(place)
        request = compare_candidate(place, store)
        if request.released_as is not None:
            return Completed(message=f"the candidate is release {request.released_as} already")
        if request.regression is not None:
            raise ReasonloopError(request.regression)
        if _awaited_answer(request) == "reject":
            return Cancelled(message=REJECTED)
        number = release_candidate(request, store)
        return Completed(message=f"released as {store / str(number)}")


def _awaited_answer(request: PromotionRequest) -> Answer:
    """Wait for the answer of a person; ReasonloopError: there was no answer in time."""
    form = Decision.with_initial_data(description=request.description)
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None and context.flow_run.deployment_id:
        return suspend_flow_run(form, timeout=_SUSPENDED_S, key=request.key).decision
    try:
        return pause_flow_run(form, timeout=_WAIT_S, poll_interval=_POLL_S).decision
    except FlowPauseTimeout as error:
        raise ReasonloopError(
            f"no answer within {_WAIT_S // 3600} hours; nothing was released"
        ) from error


def _cancel_waiting(workspace: Workspace) -> None:
    """Cancel the promotions of ``workspace`` that wait, since a new one begins."""
    with get_client(sync_client=True) as client:
        for run in _paused(client, workspace):
            state: State[None] = Cancelled(message="a later promotion of the workspace has begun")
            client.set_flow_run_state(run.id, state, force=True)


def waiting_promotion(
    client: SyncPrefectClient, workspace: Workspace
) -> tuple[FlowRun, str] | None:
    """The promotion of ``workspace`` that waits for an answer, and the text of its form, if it is complete."""
    found = ((run, form_text(client, run)) for run in _paused(client, workspace))
    return next(((run, text) for run, text in found if text is not None), None)


def form_text(client: SyncPrefectClient, run: FlowRun) -> str | None:
    """The form of ``run`` as Markdown; None if it does not wait, or its form is not complete yet."""
    if run.state is None or not run.state.is_paused():
        return None
    keys = run.state.state_details.run_input_keyset or {}
    try:
        # Saved last, so the form is complete.
        text: str = json.loads(client.read_flow_run_input(run.id, keys["description"]))
    except (KeyError, httpx.HTTPStatusError):
        return None
    return text


def _paused(client: SyncPrefectClient, workspace: Workspace) -> list[FlowRun]:
    """Paused promotions of ``workspace``, newest first."""
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[_FLOW])),
        flow_run_filter=FlowRunFilter(
            tags=FlowRunFilterTags(all_=[workspace_tag(workspace)]),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])),
        ),
        sort=FlowRunSort.START_TIME_DESC,
    )


def answer(
    client: SyncPrefectClient, run: FlowRun, decision: Answer, *, workspace: Workspace
) -> None:
    """Resume a waiting run with ``decision``.

    Raises:
        ReasonloopError: its process has ended, it no longer waits, or the server refuses the answer.
    """
    is_suspended = run.deployment_id is not None  # its process has ended; a worker goes on with it
    if not is_suspended and not is_held(workspace.root):
        state: State[None] = Crashed(message="its process has ended while it waited for an answer")
        client.set_flow_run_state(run.id, state, force=True)
        raise ReasonloopError(f"{workspace.root}: {state.message}; promote it again")
    result = client.resume_flow_run(run.id, run_input={"decision": decision})
    if result.status is not SetStateStatus.ACCEPT:
        reason = getattr(result.details, "reason", None)
        raise ReasonloopError(f"{workspace.root}: the promotion cannot be answered ({reason})")


def final_state(
    client: SyncPrefectClient, run: FlowRun, *, patience_s: float
) -> State[None] | None:
    """The final state of the run; None if it has none after ``patience_s`` seconds."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        state = client.read_flow_run(run.id).state
        if state is not None and state.is_final():
            return state
        time.sleep(_POLL_S)
    return None
