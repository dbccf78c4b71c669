"""Check a cluster's node: workspace, server, libraries. Sent by value, since it asks nodes for nothing of this package.

Imports the standard library alone, and httpx, which Prefect needs there anyway.
"""

import importlib
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import Mapping

PACKAGES = ("flows", "tasks", "pipeline_lib")
_LIBRARIES = (
    *("prefect", "prefect-ray", "pydantic", "pyarrow", "torch", "transformers", "trl", "peft"),
    *("sympy", "math-verify"),
)
"""Libraries that must be alike: they carry tasks, or change results."""
_ANSWER_S = 10.0


def inspect_node(
    workspace: str, probe: str, content: str, api_url: str, wanted: Mapping[str, str]
) -> str | None:
    """The first problem of this machine.

    Args:
        workspace: Folder that it must reach.
        probe: File there that the driver has written.
        content: Of that file.
        api_url: Prefect server that it must reach.
        wanted: `versions` of the driver.
    """
    return (
        _workspace_problem(workspace, probe, content)
        or _server_problem(api_url)
        or _version_problem(wanted)
    )


def import_packages() -> None:
    """Import the packages in a new process."""
    for name in PACKAGES:
        importlib.import_module(name)


def versions() -> dict[str, str]:
    """Of Python and the libraries on this machine."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _LIBRARIES}


def _version(library: str) -> str:
    try:
        found = importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "none"
    return found.partition("+")[0]  # +cpu and +cu130 are builds of one version


def _workspace_problem(workspace: str, probe: str, content: str) -> str | None:
    try:
        found = pathlib.Path(probe).read_text(encoding="utf-8")
        if found == content and os.access(workspace, os.W_OK):
            return None
        reason = "another file, or not writable"
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
    return (
        f"does not share the workspace {workspace} ({reason}); mount it there under "
        "the same path, or pass another --workspace"
    )


def _server_problem(api_url: str) -> str | None:
    import httpx  # noqa: PLC0415 - by the node

    try:
        httpx.get(f"{api_url}/health", timeout=_ANSWER_S).raise_for_status()
    except httpx.HTTPError as error:
        return (
            f"does not reach the Prefect server at {api_url} ({error!r}); set "
            "PREFECT_API_URL to an address that all nodes reach"
        )
    return None


def _version_problem(wanted: Mapping[str, str]) -> str | None:
    for name, found in versions().items():
        if found != wanted[name]:
            return (
                f"has {name} {found}, and this machine {wanted[name]}; install equal "
                "versions (requirements/app.txt of a clone)"
            )
    return None
