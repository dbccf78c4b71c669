"""Admission of a run to its workspace: preflight, then the lease. Needs no Prefect.

The command enters it before a server is started, and every flow of a run enters it by `run_guard`, so
that a run that a worker or a notebook starts is refused for the same reasons with the same line.
"""

import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flows.run.failures import RUN_AGAIN
from flows.run.ray_address import check_ray_address, ray_address
from flows.run.watch import WORKSPACE_POLL_S, watched
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.store.leftovers import remove_leftovers
from pipeline_lib.store.workspace import Lease, Workspace
from pipeline_lib.systems.loop.preflight import (
    check_params,
    check_space,
    check_trackers,
    check_writable,
)
from pipeline_lib.systems.stage import Run
from pipeline_lib.systems.table import STAGES

_RAY_MIB = 64
# Contexts are copied into the threads of subflows, and never into another run's process.
_held: ContextVar[frozenset[pathlib.Path]] = ContextVar("held", default=frozenset())

_OUTPUTS = [
    "data/compute",
    *(path for s in STAGES.values() for path in (*s.outputs, *s.metrics)),
]


@contextmanager
def admitted(run: Run, *, uses_engine: bool = True, draws: bool = True) -> Iterator[None]:
    """Hold the workspace of ``run`` for the block, if everything that it needs is there.

    Nested uses for a workspace that is held already do nothing.

    Args:
        run: what is run.
        uses_engine: it draws from policies by the engine of the params, as the loop does; otherwise data set, model,
            engine and space of the loop are not checked.
        draws: the engine may be started, so that it must be installed here.

    Raises:
        BadInputError: the params name something that cannot be used.
        ReasonloopError: another process holds the workspace, its Ray does not answer, a disk has no
            room, or the workspace vanishes during the block.
    """
    root = run.root.resolve()
    if root in _held.get():
        yield
        return
    check_trackers(run.params)
    if uses_engine:
        check_params(run.params, draws=draws)
    if run.params.execution.runner == "ray":
        check_ray_address(run.params.execution)
        _check_ray_room(run.params.execution)
    with held(root):
        remove_leftovers(root / output for output in _OUTPUTS)
        if uses_engine:
            check_space(root, run.params)
        yield


@contextmanager
def held(root: pathlib.Path) -> Iterator[None]:
    """Hold the workspace in ``root``, an absolute path, for the block.

    Raises:
        ReasonloopError: another process holds it, or it cannot be written.
    """
    check_writable(root)
    with Workspace(root).lease() as lease:
        token = _held.set(_held.get() | {root})
        try:
            with _present(root, lease):
                yield
        finally:
            _held.reset(token)


def is_held(root: pathlib.Path) -> bool:
    """True if a process holds the workspace in ``root``."""
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
    """End the block with one line if the workspace vanishes: its files would go to another disk."""

    def problem() -> str | None:
        return f"{root}: the workspace has vanished; mount it again" if lease.is_lost() else None

    with watched(problem, poll_s=WORKSPACE_POLL_S):
        try:
            yield
        except Exception as error:
            if found := problem():
                raise ReasonloopError(f"{found}, then {RUN_AGAIN}") from error
            raise
