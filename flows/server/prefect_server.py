"""The local Prefect server as a process: ``python -m flows.server.prefect_server PORT STATE``.

`prefect server start` accepts any Host header and allows any origin, so a web page could start and
delete runs by DNS rebinding. The same app is served here behind a host guard, for clients on this
machine. `server` starts and stops it. It shows reports of known workspaces, so that its UI can link to them:
browsers block `file://` links on pages that come over http.
"""

import os
import pathlib
import sys

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from flows.server.server import LOOPBACK, known_workspaces
from pipeline_lib.store.workspace import Workspace

# No origin and no scripts: a report holds text of models, and shares its address with Prefect's API.
_POLICY = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def main(port: int, state: str) -> None:
    """Serve until SIGTERM."""
    # Read when prefect is imported.
    os.environ["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] = f"http://{LOOPBACK}:{port}"
    import uvicorn  # noqa: PLC0415 - with prefect
    from prefect.server.api.server import create_app  # noqa: PLC0415 - see above

    from flows.server import email_block  # noqa: F401, PLC0415 - a notification can name this block
    from pipeline_lib.engines.middleware.host_guard import HostGuard  # noqa: PLC0415 - as above

    app = create_app(final=True)
    app.router.routes.insert(0, _reports(pathlib.Path(state)))
    # Around the app, not in it: the server's own clients call the app without a network, by another name,
    # and the actions of automations would be refused.
    uvicorn.run(HostGuard(app), host=LOOPBACK, port=port, log_level="info", access_log=False)


def _reports(state: pathlib.Path) -> Route:
    def page(request: Request) -> FileResponse:
        root = known_workspaces(state).get(request.path_params["key"])
        if root is None:
            raise HTTPException(404)
        file = Workspace(pathlib.Path(root)).reports / "report.html"
        if not file.is_file():
            raise HTTPException(404, f"{file} is missing")
        return FileResponse(file, headers={"Content-Security-Policy": _POLICY})

    return Route("/workspaces/{key}/report.html", page)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
