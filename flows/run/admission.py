"""Checks of a run, and the lock of its workspace. Needs no Prefect.

A command or an entry point calls `check_run` before it starts a Prefect server. The outermost flow then locks the
workspace for the whole run (`taken`).
"""

import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from flows.run.failures import RUN_AGAIN
from flows.run.ray_address import check_ray_address, ray_address
from flows.run.watch import WORKSPACE_POLL_S, watched
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.store.folders import remove_leftovers
from pipeline_lib.store.workspace import Lease, Workspace
from pipeline_lib.systems.stage import Run, System
from pipeline_lib.systems.table import STAGES, SYSTEM_OF

_RAY_MIB = 64
_OUTPUTS = [
    "data/compute",
    *(path for s in STAGES.values() for path in (*s.outputs, *s.metrics)),
]


def check_run(system: System, run: Run, *, draws: bool = True) -> None:
    """Check everything that ``run`` needs, before it starts; its workspace is locked for a moment and cleaned up.

    Args:
        system: whose stages are run.
        run: what is run.
        draws: the run may sample, so the engine must be installed on this machine.

    Raises:
        BadInputError: the params name something that cannot be used.
        ReasonloopError: another process holds the workspace, the Ray cluster of the params does not answer, or the
            disk has no room for the files of Ray.
    """
    check_trackers(run.params.execution)
    for other in {SYSTEM_OF[name] for name in system.begins(run.params)}:
        other.check(run, draws=False)
    system.check(run, draws=draws)
    if run.params.execution.runner == "ray":
        check_ray_address(run.params.execution)
        _check_ray_room(run.params.execution)
    with taken(run):
        pass


def check_trackers(execution: ExecutionParams) -> None:
    """Check the experiment trackers of the params; BadInputError: one is unknown or not installed."""
    if execution.report_to:
        from pipeline_lib.train.tracking.trackers import Trackers  # noqa: PLC0415 - transformers

        Trackers.of(execution, pathlib.Path()).check()


def check_writable(root: pathlib.Path) -> None:
    """Check that files can be written to the workspace; ReasonloopError: they cannot."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            probe.write(b"0")
    except OSError as error:
        raise ReasonloopError(
            f"{root}: cannot be written ({reason_of(error)}); pass another --workspace"
        ) from error


@contextmanager
def taken(run: Run) -> Iterator[None]:
    """As `held`, after which what killed processes have left in the workspace is removed.

    Raises:
        ReasonloopError: another process holds it, or it vanishes during the block.
    """
    with held(run.root):
        remove_leftovers(run.root.resolve() / output for output in _OUTPUTS)
        yield


@contextmanager
def held(root: pathlib.Path) -> Iterator[None]:
    """Lock the workspace in ``root`` for the block.

    Raises:
        ReasonloopError: another process holds it, or it cannot be written.
    """
    check_writable(root)
    with Workspace(root).lease() as lease, _present(root, lease):
        yield


def is_held(root: pathlib.Path) -> bool:
    """True if a process has locked the workspace in ``root``."""
    try:
        with Workspace(root).lease():
            return False
    except ReasonloopError:
        return True


def _check_ray_room(execution: ExecutionParams) -> None:
    """Without room for its files, a Ray on this machine fails after a minute, for no stated reason."""
    if ray_address(execution):
        return
    folder = environment("RAY_TMPDIR") or tempfile.gettempdir()
    free_mib = shutil.disk_usage(folder).free >> 20
    if free_mib < _RAY_MIB:
        raise ReasonloopError(
            f"{folder}: {free_mib} MiB free, and Ray keeps logs and objects there; free "
            f"{_RAY_MIB} MiB, set RAY_TMPDIR to another disk, or use --runner thread"
        )


@contextmanager
def _present(root: pathlib.Path, lease: Lease) -> Iterator[None]:
    """Abort the block with a one-line error if the workspace vanishes, as when its disk is unmounted.

    New files would be written to the disk below.
    """

    def problem() -> str | None:
        return f"{root}: the workspace has vanished; mount it again" if lease.is_lost() else None

    with watched(problem, poll_s=WORKSPACE_POLL_S):
        try:
            yield
        except Exception as error:
            if found := problem():
                raise ReasonloopError(f"{found}, then {RUN_AGAIN}") from error
            raise
