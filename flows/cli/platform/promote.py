"""`reasonloop promote`: release the policy of a finished run, behind the answer of a person."""

import pathlib
import shlex
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import httpx
from cyclopts import Group, Parameter
from cyclopts.validators import mutually_exclusive
from rich.markdown import Markdown

from flows.cli.orchestrated import served
from flows.cli.tables import print_table
from flows.run.terminal import console, say
from flows.server import server
from flows.server.polling import polled
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.publish.promotion.comparison import check_candidate
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.publish.promotion.wording import release_table
from pipeline_lib.store.workspace import Workspace

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun, State

    from flows.promote import Answer

PATIENCE_S = 60.0
"""Longest wait for the end of a run that was answered."""
_POLL_S = 1.0
_INSTEAD = Group("Instead of a new promotion", validator=mutually_exclusive)


def promote(
    *,
    workspace: Annotated[
        pathlib.Path, Parameter(help="Folder of the finished run with the candidate.")
    ] = pathlib.Path(),
    releases: Annotated[
        pathlib.Path | None,
        Parameter(help="Folder of the releases; default: models/released of the workspace."),
    ] = None,
    approve: Annotated[
        bool, Parameter(negative="", group=_INSTEAD, help="Release the waiting candidate.")
    ] = False,
    reject: Annotated[
        bool, Parameter(negative="", group=_INSTEAD, help="Reject the waiting candidate.")
    ] = False,
    back: Annotated[
        bool, Parameter(negative="", group=_INSTEAD, help="Return to the release before.")
    ] = False,
    list_: Annotated[
        bool, Parameter(name="--list", negative="", group=_INSTEAD, help="List the releases.")
    ] = False,
) -> None:
    """Compare the policy of a finished run with the released one, and release it once approved.

    Both must have been evaluated on the same problems, with the same seeds and sampling params. The
    command waits up to 24 hours for the answer, which is given in the Prefect UI, through its API, or
    by the same command with `--approve` or `--reject` in another terminal. A candidate whose interval
    is wholly below 0 is refused at once. `models/released/current` links to the released policy.

    **Examples:**

        reasonloop promote --workspace /tmp/trial --releases models/released
        reasonloop promote --workspace /tmp/trial --approve
        reasonloop promote --list
        reasonloop promote --back
    """
    place = Workspace(workspace.resolve())
    store = Releases((releases or place.releases).resolve())
    if list_:
        print_table(release_table(store.all(), store.current()))
    elif back:
        say(f"{store.back().name} is the released policy again")
    elif approve or reject:
        _answer(place, "approve" if approve else "reject")
    else:
        _promote(place, store)


def _promote(workspace: Workspace, store: Releases) -> None:
    check_candidate(workspace)
    with served():
        from flows.promote import promote as flow  # noqa: PLC0415 - see `orchestrated`

        shown = _Shown(str(workspace.root))
        try:
            with polled(shown.refresh, poll_s=_POLL_S):
                state = flow.with_options(on_running=[shown.begin])(
                    workspace=workspace.root, releases=store.root, return_state=True
                )
        except SystemExit:
            if not shown.is_cancelled:
                raise
            shown.end()
            raise ReasonloopError("the promotion was cancelled") from None
    if state.is_failed() or state.is_crashed():
        state.result()
    if state.is_cancelled():
        raise ReasonloopError(str(state.message))
    say(str(state.message))


class _Shown:
    """Shows the request once the run waits, and ends the flow if its run is cancelled in the UI.

    Prefect does not: a paused flow waits until it is resumed.
    """

    def __init__(self, root: str) -> None:
        self.is_cancelled = False
        self._root = root
        self._run_id: UUID | None = None
        self._is_shown = False

    def begin(self, flow: object, flow_run: "FlowRun", state: object) -> None:  # noqa: ARG002 - hook
        """Hook of the flow: its run begins."""
        self._run_id = flow_run.id

    def refresh(self) -> None:
        """Look at the run. A server that is gone is reported by the watchdog."""
        if self._run_id is not None and not self.is_cancelled:
            with suppress(httpx.HTTPError):
                self._look(self._run_id)

    def _look(self, run_id: UUID) -> None:
        from prefect import get_client  # noqa: PLC0415 - see `orchestrated`

        from flows.promote import REJECTED, form_text  # noqa: PLC0415

        with get_client(sync_client=True) as client:
            run = client.read_flow_run(run_id)
            text = form_text(client, run)
        state = run.state
        # The server cancels a paused run at once; any other run is first cancelling.
        if state is not None and (
            state.is_cancelling() or (state.is_cancelled() and state.message != REJECTED)
        ):
            self.is_cancelled = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        elif text is not None and not self._is_shown:
            self._is_shown = True
            console.print(Markdown(text))
            again = f"reasonloop promote --workspace {shlex.quote(self._root)}"
            say(f"\nwaits for: {again} --approve (or --reject)")

    def end(self) -> None:
        """Mark the run as cancelled, since Prefect marks a run whose process a signal has ended as crashed."""
        from prefect import get_client  # noqa: PLC0415 - see `orchestrated`
        from prefect.states import Cancelled  # noqa: PLC0415

        assert self._run_id is not None
        with get_client(sync_client=True) as client:
            cancelled: State[None] = Cancelled(message="cancelled by a person")
            client.set_flow_run_state(self._run_id, cancelled, force=True)


def _answer(workspace: Workspace, decision: "Answer") -> None:
    if not workspace.root.is_dir():
        raise BadInputError(f"{workspace.root}: no such folder; name a --workspace")
    server.ensure()
    from prefect import get_client  # noqa: PLC0415 - see `orchestrated`

    from flows import promote as promotions  # noqa: PLC0415

    with get_client(sync_client=True) as client:
        found = promotions.waiting_promotion(client, workspace)
        if found is None:
            raise BadInputError(
                f"{workspace.root}: no promotion waits for an answer; begin one with the same "
                f"command without --{decision}"
            )
        run, text = found
        say(text.partition("\n")[0].lstrip("# "))
        promotions.answer(client, run, decision, workspace=workspace)
        state = promotions.final_state(client, run, patience_s=PATIENCE_S)
    if state is None:
        say(f"answered ({decision}); the run ends once a worker has gone on with it")
    elif state.is_completed() or decision == "reject":
        say(str(state.message))
    else:
        raise ReasonloopError(str(state.message))
