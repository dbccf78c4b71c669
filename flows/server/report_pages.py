"""Reports of known workspaces as pages of the local Prefect server, so that its UI can link to them.

Browsers block `file://` links on pages that come over http. A page is served with a policy that gives
it no origin and no scripts: it holds text of models, and shares its address with Prefect's API.
"""

import hashlib
import pathlib

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.store.workspace import Workspace

_REGISTRY = "workspaces.json"
_PAGE = "report.html"
_POLICY = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def register(state: pathlib.Path, root: pathlib.Path) -> str:
    """Make the reports of a workspace known to the server of ``state``; the path of its report."""
    key = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    known = _known(state)
    if known.get(key) != str(root):
        write_json(state / _REGISTRY, known | {key: str(root)})
    return f"/workspaces/{key}/{_PAGE}"


def route(state: pathlib.Path) -> Route:
    """``/workspaces/KEY/report.html`` for the workspaces that are registered in ``state``."""

    def page(request: Request) -> FileResponse:
        root = _known(state).get(request.path_params["key"])
        if root is None:
            raise HTTPException(404)
        file = Workspace(pathlib.Path(root)).reports / _PAGE
        if not file.is_file():
            raise HTTPException(404, f"{file} is missing")
        return FileResponse(file, headers={"Content-Security-Policy": _POLICY})

    return Route(f"/workspaces/{{key}}/{_PAGE}", page)


def _known(state: pathlib.Path) -> dict[str, str]:
    file = state / _REGISTRY
    return dict(read_json(file)) if file.is_file() else {}
