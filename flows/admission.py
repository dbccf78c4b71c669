"""Admission of a run to its workspace: preflight, then the lease. Needs no Prefect.

The command enters it before a server is started, and every flow of a run enters it by `run_guard`, so
that a run that a worker or a notebook starts is refused for the same reasons with the same line.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flows.ray_address import check_ray_address
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.loop.preflight import check_params, check_space, check_writable
from pipeline_lib.stages.stage import Run
from pipeline_lib.stages.systems import STAGES
from pipeline_lib.storage.leftovers import remove_leftovers
from pipeline_lib.storage.workspace import Workspace

# Contexts are copied into the threads of subflows, and never into another run's process.
_held: ContextVar[frozenset[pathlib.Path]] = ContextVar("held", default=frozenset())

_OUTPUTS = [
    "data/compute",
    *(path for s in STAGES.values() for path in (*s.outputs, *s.metrics, *s.plots)),
]


@contextmanager
def admitted(run: Run) -> Iterator[None]:
    """Hold the workspace of ``run`` for the block, if everything that it needs is there.

    Nested uses for a workspace that is held already do nothing.

    Raises:
        BadInputError: the params name something that cannot be used.
        ReasonloopError: another process holds the workspace, or its Ray does not answer.
    """
    root = run.root.resolve()
    if root in _held.get():
        yield
        return
    check_params(run.params)
    if run.params.execution.runner == "ray":
        check_ray_address(run.params.execution)
    with held(root):
        remove_leftovers(root / output for output in _OUTPUTS)
        check_space(root, run.params)
        yield


@contextmanager
def held(root: pathlib.Path) -> Iterator[None]:
    """Hold the workspace in ``root``, an absolute path, for the block.

    Raises:
        ReasonloopError: another process holds it, or it cannot be written.
    """
    check_writable(root)
    with Workspace(root).lease():
        token = _held.set(_held.get() | {root})
        try:
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
