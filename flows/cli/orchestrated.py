"""The frame of a command that runs a flow: preflight, lease, Prefect server, watchdogs, progress."""

import pathlib
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from flows import server
from flows.cli.progress import shown_progress
from flows.watch import SERVER_POLL_S, server_problem, watched
from pipeline_lib.loop.preflight import check_params
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import Params
from pipeline_lib.stages.stage import Run
from pipeline_lib.storage.workspace import Workspace

TERMINATED = 143


@contextmanager
def orchestrated(root: pathlib.Path, params: Params, console: Console) -> Iterator[Run]:
    """Yield the run, under a Prefect server and with progress bars.

    Prefect reads the server's address when it is imported, so flows are imported inside the block.

    Raises:
        BadInputError: the params name something that cannot be used.
        ReasonloopError: another process works in the workspace, or no server can be started.
    """
    signal.signal(signal.SIGTERM, _terminate)
    check_params(params)
    with Workspace(root).lease():
        console.print(f"Prefect UI: {server.ensure()}", soft_wrap=True)
        from prefect import tags  # noqa: PLC0415 - it reads the server's address when imported

        gone = server_problem(environment("PREFECT_API_URL") or "")
        with (
            watched(gone, poll_s=SERVER_POLL_S),
            shown_progress(root, console),
            tags(params.prepare.dataset, params.train.method, f"seed-{params.seed}"),
        ):
            yield Run(root=root, params=params)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
