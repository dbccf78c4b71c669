"""CPU affinity of a run: a single CPU at first, because candidate and examiner alternate.

On two CPUs each call would wake an idle one, which costs more than most calls; on a virtual machine
three times as much.
"""

import contextlib
import os
from collections.abc import Iterator

from pipeline_lib.verification.sandbox.jail import kernel

PINNED_S = 0.1
"""A longer run is mostly computing and may use any CPU."""


class CpuAffinity:
    """Pins processes to the current CPU, and releases them to the CPUs allowed at start."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """Processes forked within stay on the current CPU of this process."""
        here = {kernel.current_cpu()}
        self._move(0, here)
        try:
            yield
        finally:
            self._move(0, self._all)

    def pin(self, pid: int) -> None:
        """Move another process to the current CPU. Call within :meth:`pinned`."""
        self._move(pid, {kernel.current_cpu()})

    def unpin(self, *pids: int) -> None:
        """Let these processes use any allowed CPU."""
        for pid in pids:
            self._move(pid, self._all)

    def _move(self, pid: int, cpus: set[int]) -> None:
        # A container may forbid it, or the process may have ended: this costs only time.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, cpus)
