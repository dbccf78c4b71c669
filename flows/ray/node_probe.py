"""Check a cluster's node: workspace, server, libraries, code. Sent by value, since a node may lack this package.

Imports the standard library alone, and httpx, which Prefect needs there anyway.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
from dataclasses import dataclass

PACKAGES = ("flows", "tasks", "pipeline_lib")
_SOURCES = {".py", ".j2"}
_LIBRARIES = (
    *("prefect", "prefect-ray", "pydantic", "pyarrow", "torch", "transformers", "trl", "peft"),
    *("sympy", "math-verify"),
)
"""Libraries that must be alike: they carry tasks, or change results."""
_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Workspace and server that a node must reach."""

    workspace: str
    probe: str
    """File that the driver has written to the workspace."""
    content: str
    api_url: str
    """Of the Prefect server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Findings on one node. A problem is None where all is well."""

    workspace_problem: str | None
    server_problem: str | None
    versions: dict[str, str]
    code: str
    """Digest of the packages; of one that is missing, of nothing."""


def look(question: Question) -> Sight:
    """Look for workspace, server, libraries and code on this machine."""
    return Sight(
        workspace_problem=_workspace_problem(question),
        server_problem=_server_problem(question.api_url),
        versions={"python": platform.python_version()}
        | {name: _version(name) for name in _LIBRARIES},
        code=_code_digest(),
    )


def import_packages() -> None:
    """Import the packages in a new process."""
    for name in PACKAGES:
        importlib.import_module(name)


def _workspace_problem(question: Question) -> str | None:
    try:
        found = pathlib.Path(question.probe).read_text(encoding="utf-8")
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if found != question.content:
        return f"{question.probe}: another file"
    return None if os.access(question.workspace, os.W_OK) else f"{question.workspace}: not writable"


def _server_problem(api_url: str) -> str | None:
    import httpx  # noqa: PLC0415 - by the node

    try:
        httpx.get(f"{api_url}/health", timeout=_ANSWER_S).raise_for_status()
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None


def _version(library: str) -> str:
    try:
        found = importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "none"
    return found.partition("+")[0]  # +cpu and +cu130 are builds of one version


def _code_digest() -> str:
    digest = hashlib.sha256()
    for package in PACKAGES:
        for file in _sources(package):
            digest.update(f"{package}/{file.name}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources(package: str) -> list[pathlib.Path]:
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found else None
    if not folders:
        return []
    return sorted(path for path in pathlib.Path(folders[0]).rglob("*") if path.suffix in _SOURCES)
