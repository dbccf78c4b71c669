"""The frame of a command that runs a flow: checks, Prefect server, watchdogs, progress."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from flows.cli.progress import shown_progress
from flows.cli.serving import exit_on_sigterm
from flows.run.admission import check_run
from flows.run.terminal import console, say
from flows.run.watch import SERVER_POLL_S, server_problem, watched
from flows.server import server
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.stage import Run, System


@contextmanager
def orchestrated(
    system: System, root: pathlib.Path, params: Params, *, draws: bool = True
) -> Iterator[Run]:
    """Yield the run, which was checked, under a Prefect server and with progress bars.

    Prefect reads the server's address when it is imported, so flows are imported inside the block. ``draws`` as
    of `check_run`.

    Raises:
        BadInputError: the params name something that cannot be used.
        ReasonloopError: another process works in the workspace, or no server can be started.
    """
    exit_on_sigterm()
    run = Run(root=root, params=params)
    check_run(system, run, draws=draws)
    with served():
        from prefect import tags  # noqa: PLC0415 - see above

        from flows.run.guard import RUN_TAG  # noqa: PLC0415 - as above

        with tags(RUN_TAG), shown_progress(root, console):
            yield run


@contextmanager
def served() -> Iterator[None]:
    """A Prefect server for the block, which is left by SystemExit if the server dies.

    Raises:
        ReasonloopError: no server can be started.
    """
    exit_on_sigterm()
    say(f"Prefect UI: {server.ensure()}")
    gone = server_problem(environment("PREFECT_API_URL") or "")
    with watched(gone, poll_s=SERVER_POLL_S):
        yield
