"""Promotion: compare the candidate of a workspace with the released policy, pause, release.

A worker's run is suspended while it waits, so it keeps no process and no workspace; after the answer
the flow runs from its beginning, and is suspended again if candidate or figures have changed meanwhile.
Any other run waits in its process and keeps the workspace.
"""

import pathlib

from prefect import flow, get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run, suspend_flow_run
from prefect.states import Cancelled, Completed

from flows.run.guard import workspace_guard
from flows.run.offers import FLOW, Answer, Decision, supersede
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.publish.promotion.candidate import check_candidate
from pipeline_lib.publish.promotion.offer import Offer
from pipeline_lib.store.workspace import Workspace
from tasks.promotion import compare_candidate, release_candidate

_WAIT_S = 24 * 3600
_SUSPENDED_S = 14 * _WAIT_S
_POLL_S = 1
REJECTED = "rejected; nothing was released"
"""Message of the state of a run that a person has rejected."""


@flow(name=FLOW, flow_run_name="promotion")
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
        _supersede(place)
        offer = compare_candidate(place, store)
        if offer.released_as is not None:
            return Completed(message=f"the candidate is release {offer.released_as} already")
        if offer.regression is not None:
            raise ReasonloopError(offer.regression)
        if _answer(offer) == "reject":
            return Cancelled(message=REJECTED)
        number = release_candidate(offer, store)
        return Completed(message=f"released as {store / str(number)}")


def _supersede(workspace: Workspace) -> None:
    with get_client(sync_client=True) as client:
        supersede(client, workspace)


def _answer(offer: Offer) -> Answer:
    """Wait for the answer of a person; ReasonloopError: there was no answer in time."""
    form = Decision.with_initial_data(description=offer.description)
    context = FlowRunContext.get()
    if context is not None and context.flow_run is not None and context.flow_run.deployment_id:
        return suspend_flow_run(form, timeout=_SUSPENDED_S, key=offer.key).decision
    try:
        return pause_flow_run(form, timeout=_WAIT_S, poll_interval=_POLL_S).decision
    except FlowPauseTimeout as error:
        raise ReasonloopError(
            f"no answer within {_WAIT_S // 3600} hours; nothing was released"
        ) from error
