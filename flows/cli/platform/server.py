"""`reasonloop server`: the local Prefect server."""

from typing import Annotated

from cyclopts import Parameter, validators

from flows.run.terminal import say
from flows.server import server
from pipeline_lib.errors import BadInputError

_PORT = validators.Number(gte=1, lt=2**16)


def start(
    *,
    foreground: Annotated[
        bool,
        Parameter(negative="", help="Run the server in this process, for systemd and the like."),
    ] = False,
    port: Annotated[
        int | None,
        Parameter(help="With --foreground; default: a free one.", validator=_PORT),
    ] = None,
) -> None:
    """Find or start the local Prefect server and print the address of its UI.

    **Examples:**

        reasonloop server start
        reasonloop server start --foreground --port 4200
    """
    if foreground:
        server.become(port)  # does not return
    if port is not None:
        raise BadInputError(
            "--port: only with --foreground; a server in the background takes a free one"
        )
    say(f"Prefect UI: {server.ensure()}")


def status() -> None:
    """Say whether the local Prefect server runs, and where.

    **Example:**

        reasonloop server status
    """
    found = server.find()
    say(f"running, process {found.pid}, UI: {found.ui_url}" if found else "not running")


def stop() -> None:
    """Stop the local Prefect server that reasonloop started.

    **Example:**

        reasonloop server stop
    """
    say("stopped" if server.stop() else "there was none to stop")
