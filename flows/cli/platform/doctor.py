"""`reasonloop doctor`: checks of this machine and of what a run may use, with a remedy per finding."""

import dataclasses
import importlib.metadata
import json
import pathlib
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import httpx
import psutil
from cyclopts import Parameter
from rich.markup import escape

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.run.admission import check_writable
from flows.run.ray_address import check_ray_address, ray_address, ray_place
from flows.run.terminal import console
from flows.server import server
from pipeline_lib import defaults
from pipeline_lib.engines.gpus import gpu_names
from pipeline_lib.engines.known.engine import environment_python
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import ExecutionParams, Params
from pipeline_lib.verify.sandbox.tiers import probe_tiers

_MARKS = {True: "[green]ok      [/]", False: "[red]missing [/]", None: "[yellow]optional[/]"}
_PACKAGES = ("prefect", "prefect-ray", "ray", "dvc", "torch", "transformers", "trl", "peft")
_TESTED = defaults.CHECKOUT / "requirements" / "app.txt"
_COMMAND_TIMEOUT_S = 20
_MIN_FREE_DISK_GIB = 5
_MIN_FREE_MEMORY_GIB = 4
_MIN_DESCRIPTORS = 1024
_LANDLOCK_REACH = (
    "; programs cannot read other files, but by stat they see names, sizes, owners and times of files "
    "and which processes there are"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of output; ``ok`` is None for an optional part that is missing."""

    what: str
    ok: bool | None
    detail: str
    remedy: str = ""


def doctor(
    *,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", help="Print the findings as JSON.")
    ] = False,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Check this machine for a run: packages, sandbox, memory, disk, server, Ray, engine, DVC.

    Each line that is not ok names a remedy. Exit code 1 if a part is missing that the run needs.

    **Examples:**

        reasonloop doctor
        reasonloop doctor --engine vllm --workspace /shared/trial --json
    """
    findings = list(_findings(options.workspace.resolve(), params.load(options.given)))
    ok = all(finding.ok is not False for finding in findings)
    if as_json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        console.print_json(json.dumps({"ok": ok, "findings": rows}))
    else:
        for one in findings:
            remedy = "" if one.ok or not one.remedy else f" [dim]({escape(one.remedy)})[/]"
            line = f"{_MARKS[one.ok]} {one.what}: {escape(one.detail)}{remedy}"
            console.print(line, highlight=False, soft_wrap=True)
    sys.exit(0 if ok else 1)


def _findings(workspace: pathlib.Path, params: Params) -> Iterator[Finding]:
    is_new = sys.version_info >= (3, 11)
    yield Finding("Python", is_new, platform.python_version(), "install Python 3.11 or newer")
    yield from _packages()
    yield from _prefect_server()
    yield from _ray(params.execution, workspace)
    yield _engine(params.serve)
    yield from dvc()
    yield _docker()
    yield from _sandbox()
    yield from _machine()
    yield from disk(workspace)


def _packages() -> Iterator[Finding]:
    """Versions of the large libraries, compared with the tested ones of a clone."""
    tested = _TESTED.read_text("utf-8").splitlines() if _TESTED.is_file() else []
    wanted = dict(line.split("==") for line in tested if "==" in line)
    for name in _PACKAGES:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = ""
        same = name not in wanted or found.split("+")[0] == wanted[name]
        detail = found + ("" if same else f" (tested with {wanted[name]})")
        yield Finding(
            name, bool(found), detail, "make install" if tested else "pip install reasonloop"
        )


def _prefect_server() -> Iterator[Finding]:
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
    yield Finding("Prefect server", alive, detail, remedy)
    api_url = configured or (found.api_url if found else None)
    if alive and api_url:
        yield from work_pools(api_url)


def work_pools(api_url: str) -> Iterator[Finding]:
    """The work pools of a server, with their workers."""
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
        reason = type(error).__name__
        yield Finding("work pools", ok=False, detail=reason, remedy="the server's log says why")
        return
    if not workers:
        yield Finding("work pools", ok=None, detail="none; only deployments need one")
    for pool, listed in workers.items():
        online = [worker.name for worker in listed if worker.status is WorkerStatus.ONLINE]
        yield Finding(
            f"work pool {pool}",
            ok=True if online else None,
            detail=f"worker {', '.join(online)} is online" if online else "no worker is online",
            remedy=f"deployments wait for one: prefect worker start --pool {pool}",
        )


def _ray(execution: ExecutionParams, workspace: pathlib.Path) -> Iterator[Finding]:
    """The address of a running cluster, and whether its nodes can work on the workspace."""
    if ray_address(execution) is None:
        yield Finding("Ray", ok=True, detail="local; started by each run")
        return
    try:
        check_ray_address(execution)
    except ReasonloopError as error:
        yield Finding("Ray", ok=False, detail=str(error))
        return
    yield Finding("Ray", ok=True, detail=f"a cluster answers ({ray_place(execution)})")
    found = server.find()
    api_url = environment("PREFECT_API_URL") or (found.api_url if found else None)
    if api_url is None:
        detail = "not asked: they need a Prefect server"
        yield Finding("Ray nodes", ok=None, detail=detail, remedy="reasonloop server start")
        return
    from flows.ray.runners import check_cluster  # noqa: PLC0415 - Ray takes a second

    folder = _existing_folder(workspace)
    try:
        count = check_cluster(execution, folder, api_url)
    except ReasonloopError as error:
        yield Finding("Ray nodes", ok=False, detail=str(error))
        return
    detail = f"{count} share {folder}, reach the Prefect server and have equal versions"
    yield Finding("Ray nodes", ok=True, detail=detail)


def _engine(serve: ServeParams) -> Finding:
    """The virtual environment of an engine that runs as a server."""
    what, made = "serve environment", engine_named(serve.engine).environment
    if made is None:
        return Finding(what, ok=None, detail=f"serve.engine={serve.engine} needs none")
    try:
        found = environment_python(serve, made)
    except BadInputError as error:
        return Finding(what, ok=False, detail=str(error))
    return Finding(what, ok=True, detail=f"{found} has {serve.engine}")


def dvc() -> Iterator[Finding]:
    """The DVC repository of the working directory, and its default remote."""
    here = pathlib.Path.cwd()
    root = next((one for one in (here, *here.parents) if (one / ".dvc").is_dir()), None)
    if root is None:
        detail = "none; only dvc repro needs one"
        yield Finding("DVC repository", ok=None, detail=detail, remedy="dvc init")
        return
    yield Finding("DVC repository", ok=True, detail=str(root))
    command = [sys.executable, "-m", "dvc", "--cd", str(root)]
    name = _answer_of([*command, "remote", "default"])
    if not name:
        detail = "none; only dvc push and pull need one"
        yield Finding("DVC remote", ok=None, detail=detail, remedy="dvc remote add -d NAME URL")
        return
    is_there = _answer_of([*command, "ls-url", f"remote://{name}"]) is not None
    detail = f"{name} {'answers' if is_there else 'does not answer'}"
    remedy = f"dvc ls-url remote://{name} says why; the first dvc push makes a missing folder"
    yield Finding("DVC remote", is_there, detail, remedy)


def _docker() -> Finding:
    """Docker's daemon, for one of the sandbox tiers."""
    client = shutil.which("docker")
    answer = _answer_of([client, "info", "--format", "{{.ServerVersion}}"]) if client else None
    missing = "client only, no daemon answers" if client else "not installed"
    remedy = "only for the docker sandbox tier: install it and start its daemon"
    return Finding("Docker", True if answer else None, answer or missing, remedy)


def _sandbox() -> Iterator[Finding]:
    """The self-test of each sandbox tier."""
    reasons = dict(probe_tiers(CodeLimits()))
    best = next((name for name, reason in reasons.items() if not reason), None)
    remedy = f"{best} is used instead" if best else "no tier works: code is not verified"
    for name, reason in reasons.items():
        used = " (in use)" if name == best else ""
        passed = f"self-test passed{used}{_LANDLOCK_REACH if name == 'landlock' else ''}"
        yield Finding(f"sandbox tier {name}", None if reason else True, reason or passed, remedy)


def _machine() -> Iterator[Finding]:
    """CUDA devices of this environment's torch, memory without swapping, the limit of open files."""
    names = gpu_names()
    devices = "; ".join(names) or "none; the embedded engine uses the CPU"
    yield Finding("GPU", True if names else None, devices, "only for larger models")
    free_gib = psutil.virtual_memory().available / 2**30
    remedy = f"free {_MIN_FREE_MEMORY_GIB} GiB, or lower execution.workers"
    is_enough = free_gib >= _MIN_FREE_MEMORY_GIB
    yield Finding("memory", is_enough, f"{free_gib:.1f} GiB free", remedy)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    yield Finding(
        "open files",
        ok=unlimited or soft >= _MIN_DESCRIPTORS,
        detail=f"at most {'unlimited' if unlimited else soft} per process",
        remedy=f"ulimit -n {_MIN_DESCRIPTORS if hard < 0 else min(hard, _MIN_DESCRIPTORS)}",
    )


def disk(workspace: pathlib.Path) -> Iterator[Finding]:
    """Room and write access at the workspace, or where it will be made."""
    folder = _existing_folder(workspace)
    free_gib = shutil.disk_usage(folder).free / 2**30
    remedy = f"free {_MIN_FREE_DISK_GIB} GiB, or pass --workspace on another disk"
    is_enough = free_gib >= _MIN_FREE_DISK_GIB
    yield Finding("disk", is_enough, f"{free_gib:.0f} GiB free at {folder}", remedy)
    try:
        check_writable(folder)
    except ReasonloopError as error:
        yield Finding("write access", ok=False, detail=str(error))
    else:
        yield Finding("write access", ok=True, detail=f"{folder}: a file was written")


def _answer_of(command: Sequence[str]) -> str | None:
    """Standard output of a command, in one line, or None if it failed or hung."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(done.stdout.split("\n")).strip("; ")


def _existing_folder(workspace: pathlib.Path) -> pathlib.Path:
    """The workspace, or the nearest folder above it that exists."""
    return next(one for one in (workspace, *workspace.parents) if one.is_dir())
