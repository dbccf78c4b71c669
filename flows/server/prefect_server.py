"""The local Prefect server as a process: ``python -m flows.server.prefect_server PORT STATE``.

`prefect server start` accepts any Host header and allows any origin, so a web page could start and
delete runs by DNS rebinding. The same app is served here behind a host guard, for clients on this
machine. `server` starts and stops it.
"""

import os
import pathlib
import sys

from flows.server import report_pages

HOST = "127.0.0.1"


def main(port: int, state: str) -> None:
    """Serve until SIGTERM."""
    # Read when prefect is imported.
    os.environ["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] = f"http://{HOST}:{port}"
    import uvicorn  # noqa: PLC0415 - with prefect
    from prefect.server.api.server import create_app  # noqa: PLC0415 - see above

    from flows.server import email_block  # noqa: F401, PLC0415 - a notification can name this block
    from pipeline_lib.engines.middleware.host_guard import HostGuard  # noqa: PLC0415 - as above

    app = create_app(final=True)
    app.router.routes.insert(0, report_pages.route(pathlib.Path(state)))
    # Around the app, not in it: the server's own clients call the app without a network, by another name,
    # and the actions of automations would be refused.
    uvicorn.run(HostGuard(app), host=HOST, port=port, log_level="info", access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
