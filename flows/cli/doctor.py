"""`reasonloop doctor`: checks of this machine, with a remedy per finding."""

import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.markup import escape

from flows import server
from flows.terminal import PlainConsole
from pipeline_lib.params.environment import environment
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.repository import REPOSITORY
from pipeline_lib.verification.code.judge import probe_tiers

_PACKAGES = ("prefect", "prefect-ray", "ray", "dvc", "torch", "transformers", "trl", "peft")
_CONSTRAINTS = REPOSITORY / "constraints.txt"
_MIN_FREE_GIB = 5
_LANDLOCK_REACH = (
    "programs cannot read other files, but by stat they see names, sizes, owners and times of files "
    "and which processes there are"
)
_COMMAND_TIMEOUT_S = 20
_MARKS = {True: "[green]ok      [/]", False: "[red]missing [/]", None: "[yellow]optional[/]"}

console = PlainConsole()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of output; ``ok`` is None for an optional part that is missing."""

    what: str
    ok: bool | None
    detail: str
    remedy: str = ""


def doctor() -> None:
    """Check this machine: packages, server, Ray, DVC, sandbox, GPU, disk; each line says what to do.

    **Example:**

        reasonloop doctor
    """
    sys.exit(0 if examine() else 1)


def examine() -> bool:
    """Print one line per finding; False if a part that the default run needs is missing."""
    findings = [finding for check in _CHECKS for finding in check()]
    for finding in findings:
        remedy = "" if finding.ok or not finding.remedy else f" [dim]({finding.remedy})[/]"
        detail = escape(finding.detail)
        console.print(
            f"{_MARKS[finding.ok]} {finding.what}: {detail}{remedy}",
            highlight=False,
            soft_wrap=True,
        )
    return all(finding.ok is not False for finding in findings)


def _python() -> Iterator[Finding]:
    yield Finding(
        what="Python",
        ok=sys.version_info >= (3, 11),
        detail=platform.python_version(),
        remedy="install Python 3.11 or newer",
    )


def _packages() -> Iterator[Finding]:
    wanted = dict(
        line.split("==") for line in _CONSTRAINTS.read_text("utf-8").splitlines() if "==" in line
    )
    for name in _PACKAGES:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = ""
        same = found.split("+")[0] == wanted.get(name)
        yield Finding(
            what=name,
            ok=bool(found),
            detail=found + ("" if same else f" (tested with {wanted.get(name)})"),
            remedy="make install",
        )


def _server() -> Iterator[Finding]:
    configured = environment("PREFECT_API_URL")
    found = server.find()
    if configured:
        yield Finding(
            what="Prefect server",
            ok=server.answers(configured),
            detail=configured,
            remedy="start that server, or unset PREFECT_API_URL",
        )
    else:
        detail = f"UI at {found.ui_url}" if found else "not running; a run starts one"
        yield Finding(
            what="Prefect server",
            ok=found is None or server.answers(found.api_url),
            detail=detail,
            remedy="it does not answer: reasonloop server stop",
        )


def _ray() -> Iterator[Finding]:
    address = environment("RAY_ADDRESS")
    yield Finding(what="Ray", ok=True, detail=address or "local; started by each run")


def _dvc() -> Iterator[Finding]:
    here = (REPOSITORY / ".dvc").is_dir()
    yield Finding(
        what="DVC repository",
        ok=here,
        detail=str(REPOSITORY) if here else "none",
        remedy="dvc init",
    )


def _docker() -> Iterator[Finding]:
    client = shutil.which("docker")
    answer = _answer([client, "info", "--format", "{{.ServerVersion}}"]) if client else None
    yield Finding(
        what="Docker",
        ok=True if answer else None,
        detail=answer or ("client only, no daemon answers" if client else "not installed"),
        remedy="only for the docker sandbox tier: install it and start its daemon",
    )


def _sandbox() -> Iterator[Finding]:
    reports = probe_tiers(CodeLimits())
    best = next((report.name for report in reports if report.available), None)
    for report in reports:
        used = " (in use)" if report.name == best else ""
        yield Finding(
            what=f"sandbox tier {report.name}",
            ok=True if report.available else None,
            detail=f"self-test passed{used}{_reach(report.name)}"
            if report.available
            else report.reason,
            remedy=f"{best} is used instead" if best else "no tier works: code is not verified",
        )


def _reach(tier: str) -> str:
    """Limits of the isolation in ``tier``, for the report; empty for the namespace tier."""
    return f"; {_LANDLOCK_REACH}" if tier == "landlock" else ""


def _gpu() -> Iterator[Finding]:
    client = shutil.which("nvidia-smi")
    answer = (
        _answer([client, "--query-gpu=name,memory.total", "--format=csv,noheader"])
        if client
        else None
    )
    yield Finding(
        what="GPU",
        ok=True if answer else None,
        detail=answer or "none; the embedded engine uses the CPU",
        remedy="only for larger models",
    )


def _disk() -> Iterator[Finding]:
    free_gib = shutil.disk_usage(REPOSITORY).free / 2**30
    yield Finding(
        what="disk",
        ok=free_gib >= _MIN_FREE_GIB,
        detail=f"{free_gib:.0f} GiB free at {REPOSITORY}",
        remedy=f"free {_MIN_FREE_GIB} GiB, or pass --workspace on another disk",
    )


def _answer(command: list[str]) -> str | None:
    """Standard output of a command, in one line, or None if it failed or hung."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            command, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(done.stdout.split("\n")).strip("; ") or None


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _server,
    _ray,
    _dvc,
    _docker,
    _sandbox,
    _gpu,
    _disk,
)
