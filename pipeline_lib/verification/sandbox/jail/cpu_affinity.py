"""On which CPU a run happens: a single one at first, since candidate and examiner take turns.

Between two CPUs each call would wake an idle one, which costs more than most calls; where the
machine is virtual, three times as much.
"""

import contextlib
import os
from collections.abc import Iterator

from pipeline_lib.verification.sandbox.jail import kernel

PATIENCE_S = 0.1
"""A run that takes longer computes, and may then be moved to wherever there is room."""


class Placement:
    """The CPUs that this process may use, as it was started."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """What is forked within stays on the CPU where this process is now."""
        here = {kernel.current_cpu()}
        self._move(0, here)
        try:
            yield
        finally:
            self._move(0, self._all)

    def bring(self, pid: int) -> None:
        """Have another process here, too. Within :meth:`gathered`."""
        self._move(pid, {kernel.current_cpu()})

    def release(self, *pids: int) -> None:
        """Let these run wherever there is room."""
        for pid in pids:
            self._move(pid, self._all)

    def _move(self, pid: int, cpus: set[int]) -> None:
        # A container may forbid it, and a process may have ended: nothing but time is lost.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, cpus)
