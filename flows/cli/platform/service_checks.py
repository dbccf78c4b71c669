"""Checks of `reasonloop doctor` of what else a run may use: server, workers, Ray, engine, DVC."""

import pathlib
import sys
from collections.abc import Iterator

import httpx

from flows.cli.finding import Finding, answer_of, existing_folder
from flows.run.ray_address import check_ray_address, ray_address, ray_place
from flows.server import server
from pipeline_lib.engines.known.engine import INSTALL, environment_python, has_package
from pipeline_lib.engines.known.table import ENGINES, engine_named
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import ExecutionParams

_ENGINE_PACKAGES = [engine.package for engine in ENGINES.values() if engine.package]


def prefect_server() -> Iterator[Finding]:
    """The Prefect server that runs use, and the workers of its pools."""
    configured = environment("PREFECT_API_URL")
    found = server.find()
    if configured:
        alive = server.answers(configured)
        detail, remedy = configured, "start that server, or unset PREFECT_API_URL"
    else:
        alive = found is None or server.answers(found.api_url)
        detail = f"UI at {found.ui_url}" if found else "not running; a run starts one"
        remedy = "it does not answer: reasonloop server stop"
    yield Finding(what="Prefect server", ok=alive, detail=detail, remedy=remedy)
    api_url = configured or (found.api_url if found else None)
    if alive and api_url:
        yield from _work_pools(api_url)


def _work_pools(api_url: str) -> Iterator[Finding]:
    from prefect import get_client  # noqa: PLC0415 - takes a second
    from prefect.client.schemas.objects import WorkerStatus  # noqa: PLC0415 - as above
    from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: PLC0415 - as above

    try:
        with (
            temporary_settings({PREFECT_API_URL: api_url}),
            get_client(sync_client=True) as client,
        ):
            workers = {
                pool.name: client.read_workers_for_work_pool(pool.name)
                for pool in client.read_work_pools()
            }
    except httpx.HTTPError as error:
        remedy = "the server's log says why"
        yield Finding(what="work pools", ok=False, detail=type(error).__name__, remedy=remedy)
        return
    if not workers:
        detail = "none; only deployments need one"
        yield Finding(what="work pools", ok=None, detail=detail)
    for pool, listed in workers.items():
        online = [worker.name for worker in listed if worker.status is WorkerStatus.ONLINE]
        yield Finding(
            what=f"work pool {pool}",
            ok=True if online else None,
            detail=f"worker {', '.join(online)} is online" if online else "no worker is online",
            remedy=f"deployments wait for one: prefect worker start --pool {pool}",
        )


def ray(execution: ExecutionParams, workspace: pathlib.Path) -> Iterator[Finding]:
    """The address of a running cluster, and whether its nodes can work on the workspace."""
    refusal = ""
    try:
        check_ray_address(execution)
    except ReasonloopError as error:
        refusal = str(error)
    known = ray_address(execution) is not None
    detail = (
        f"a cluster answers ({ray_place(execution)})" if known else "local; started by each run"
    )
    yield Finding(what="Ray", ok=not refusal, detail=refusal or detail)
    if known and not refusal:
        yield _ray_nodes(execution, workspace)


def _ray_nodes(execution: ExecutionParams, workspace: pathlib.Path) -> Finding:
    from flows.ray.runners import check_cluster  # noqa: PLC0415 - Ray takes a second

    what = "Ray nodes"
    found = server.find()
    api_url = environment("PREFECT_API_URL") or (found.api_url if found else None)
    if api_url is None:
        return Finding(
            what=what,
            ok=None,
            detail="not asked: they need a Prefect server",
            remedy="reasonloop server start",
        )
    folder = existing_folder(workspace)
    try:
        count = check_cluster(execution, folder, api_url)
    except ReasonloopError as error:
        return Finding(what=what, ok=False, detail=str(error))
    detail = f"{count} share {folder}, reach the Prefect server and have equal versions"
    return Finding(what=what, ok=True, detail=detail)


def engine(serve: ServeParams) -> Iterator[Finding]:
    """The virtual environment of the engines that run as servers."""
    package = engine_named(serve.engine).package
    try:
        interpreter = environment_python(serve)
    except BadInputError as error:
        yield Finding(
            what="serve environment",
            ok=False if package else None,
            detail=str(error) if package else f"none; serve.engine={serve.engine} needs none",
            remedy="" if package else f"only for {' and '.join(_ENGINE_PACKAGES)}: {INSTALL}",
        )
        return
    installed = [name for name in _ENGINE_PACKAGES if has_package(interpreter, name)]
    yield Finding(
        what="serve environment",
        ok=package in installed if package else bool(installed) or None,
        detail=f"{interpreter} has {' and '.join(installed) or 'no engine'}",
        remedy=f"install {package or 'vllm'} there, or {INSTALL}",
    )


def dvc() -> Iterator[Finding]:
    """The DVC repository of the working directory, and its default remote."""
    here = pathlib.Path.cwd()
    roots = (one for one in (here, *here.parents) if (one / ".dvc").is_dir())
    root = next(roots, None)
    yield Finding(
        what="DVC repository",
        ok=True if root else None,
        detail=str(root or "none; only dvc repro needs one"),
        remedy="dvc init",
    )
    if root is None:
        return
    command = [sys.executable, "-m", "dvc"]
    name = answer_of([*command, "--cd", str(root), "remote", "default"])
    if not name:
        detail = "none; only dvc push and pull need one"
        yield Finding(
            what="DVC remote", ok=None, detail=detail, remedy="dvc remote add -d NAME URL"
        )
        return
    listed = answer_of([*command, "--cd", str(root), "ls-url", f"remote://{name}"])
    yield Finding(
        what="DVC remote",
        ok=listed is not None,
        detail=f"{name} {'answers' if listed is not None else 'does not answer'}",
        remedy=f"dvc ls-url remote://{name} says why; the first dvc push makes a missing folder",
    )
