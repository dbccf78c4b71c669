"""Checks of `reasonloop doctor` that concern this machine alone."""

import importlib.metadata
import pathlib
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator

import psutil

from flows.cli.finding import Finding, answer_of, existing_folder
from pipeline_lib import defaults
from pipeline_lib.engines.gpus import gpu_names
from pipeline_lib.errors import reason_of
from pipeline_lib.params.paths import CodeLimits
from pipeline_lib.verify.sandbox.tiers import probe_tiers

_PACKAGES = ("prefect", "prefect-ray", "ray", "dvc", "torch", "transformers", "trl", "peft")
_TESTED = defaults.CHECKOUT / "requirements" / "app.txt"
_MIN_FREE_DISK_GIB = 5
_MIN_FREE_MEMORY_GIB = 4
_MIN_DESCRIPTORS = 1024
_LANDLOCK_REACH = (
    "programs cannot read other files, but by stat they see names, sizes, owners and times of files "
    "and which processes there are"
)


def python() -> Iterator[Finding]:
    """The interpreter's version."""
    yield Finding(
        what="Python",
        ok=sys.version_info >= (3, 11),
        detail=platform.python_version(),
        remedy="install Python 3.11 or newer",
    )


def packages() -> Iterator[Finding]:
    """Versions of the large libraries, compared with the tested ones of a clone."""
    tested = _TESTED.read_text("utf-8").splitlines() if _TESTED.is_file() else []
    wanted = dict(line.split("==") for line in tested if "==" in line)
    for name in _PACKAGES:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = ""
        same = name not in wanted or found.split("+")[0] == wanted[name]
        yield Finding(
            what=name,
            ok=bool(found),
            detail=found + ("" if same else f" (tested with {wanted[name]})"),
            remedy="make install" if tested else "pip install reasonloop",
        )


def docker() -> Iterator[Finding]:
    """Docker's daemon, for one of the sandbox tiers."""
    client = shutil.which("docker")
    answer = answer_of([client, "info", "--format", "{{.ServerVersion}}"]) if client else None
    yield Finding(
        what="Docker",
        ok=True if answer else None,
        detail=answer or ("client only, no daemon answers" if client else "not installed"),
        remedy="only for the docker sandbox tier: install it and start its daemon",
    )


def sandbox() -> Iterator[Finding]:
    """The self-test of each sandbox tier."""
    reasons = dict(probe_tiers(CodeLimits()))
    best = next((name for name, reason in reasons.items() if not reason), None)
    for name, reason in reasons.items():
        used = " (in use)" if name == best else ""
        yield Finding(
            what=f"sandbox tier {name}",
            ok=None if reason else True,
            detail=reason or f"self-test passed{used}{_reach(name)}",
            remedy=f"{best} is used instead" if best else "no tier works: code is not verified",
        )


def _reach(tier: str) -> str:
    """Limits of the isolation in ``tier``, for the report; empty for the namespace tier."""
    return f"; {_LANDLOCK_REACH}" if tier == "landlock" else ""


def gpu() -> Iterator[Finding]:
    """CUDA devices that this environment's torch can use."""
    names = gpu_names()
    yield Finding(
        what="GPU",
        ok=True if names else None,
        detail="; ".join(names) or "none; the embedded engine uses the CPU",
        remedy="only for larger models",
    )


def memory() -> Iterator[Finding]:
    """Memory that programs can have without swapping."""
    free_gib = psutil.virtual_memory().available / 2**30
    yield Finding(
        what="memory",
        ok=free_gib >= _MIN_FREE_MEMORY_GIB,
        detail=f"{free_gib:.1f} GiB free",
        remedy=f"free {_MIN_FREE_MEMORY_GIB} GiB, or lower execution.workers",
    )


def descriptors() -> Iterator[Finding]:
    """Limit of open files of a process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = soft == resource.RLIM_INFINITY
    yield Finding(
        what="open files",
        ok=unlimited or soft >= _MIN_DESCRIPTORS,
        detail=f"at most {'unlimited' if unlimited else soft} per process",
        remedy=f"ulimit -n {_MIN_DESCRIPTORS if hard < 0 else min(hard, _MIN_DESCRIPTORS)}",
    )


def disk(workspace: pathlib.Path) -> Iterator[Finding]:
    """Room and write access at the workspace, or where it will be made."""
    folder = existing_folder(workspace)
    free_gib = shutil.disk_usage(folder).free / 2**30
    yield Finding(
        what="disk",
        ok=free_gib >= _MIN_FREE_DISK_GIB,
        detail=f"{free_gib:.0f} GiB free at {folder}",
        remedy=f"free {_MIN_FREE_DISK_GIB} GiB, or pass --workspace on another disk",
    )
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"0")
        refusal = ""
    except OSError as error:
        refusal = reason_of(error)
    yield Finding(
        what="write access",
        ok=not refusal,
        detail=f"{folder}: {refusal or 'a file was written'}",
        remedy="pass another --workspace, or change its owner or mount",
    )
