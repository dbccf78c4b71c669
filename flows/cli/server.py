"""`reasonloop server`: the local Prefect server."""

from flows import server
from flows.terminal import PlainConsole

console = PlainConsole()


def start() -> None:
    """Find or start the local Prefect server and print the address of its UI.

    **Example:**

        reasonloop server start
    """
    console.print(f"Prefect UI: {server.ensure()}")


def status() -> None:
    """Say whether the local Prefect server runs, and where.

    **Example:**

        reasonloop server status
    """
    found = server.find()
    console.print(f"running, process {found.pid}, UI: {found.ui_url}" if found else "not running")


def stop() -> None:
    """Stop the local Prefect server that reasonloop started.

    **Example:**

        reasonloop server stop
    """
    console.print("stopped" if server.stop() else "there was none to stop")
