"""`reasonloop server`: the local Prefect server. Heavy imports wait until a command needs them."""

from cyclopts import App

from flows.terminal import PlainConsole

server_app = App(name="server", help="The local Prefect server that runs are recorded on.")
console = PlainConsole()


@server_app.command(name="start")
def server_start() -> None:
    """Find or start the local Prefect server and print the address of its UI.

    **Example:**

        reasonloop server start
    """
    from flows import server  # noqa: PLC0415 - only this command needs it

    console.print(f"Prefect UI: {server.ensure()}")


@server_app.command(name="status")
def server_status() -> None:
    """Say whether the local Prefect server runs, and where.

    **Example:**

        reasonloop server status
    """
    from flows import server  # noqa: PLC0415 - only this command needs it

    found = server.find()
    console.print(f"running, process {found.pid}, UI: {found.ui_url}" if found else "not running")


@server_app.command(name="stop")
def server_stop() -> None:
    """Stop the local Prefect server that reasonloop started.

    **Example:**

        reasonloop server stop
    """
    from flows import server  # noqa: PLC0415 - only this command needs it

    console.print("stopped" if server.stop() else "there was none to stop")
