"""What one run may take: CPU seconds of the candidate, time by the clock, and output.

The limit is on CPU seconds, since on a loaded machine the clock says nothing about the program. The
clock only ends a run that waits, or that gets no CPU, and then nothing has been shown.
"""

import os
import select
import time

from pipeline_lib.verification.sandbox.jail import kernel

KEPT_OUTPUT_BYTES = 64 << 10
MAX_OUTPUT_BYTES = 1 << 20
WAITING = 2.5
"""A program may use ``timeout_s`` seconds of CPU. It has this many times as long by the clock ..."""
COMPUTING = 3.5
"""... and this many times if it computes: on two cores at most six programs run side by side, so that
one gets a third of a core."""
_LEAST_SHARE = 0.05
"""Of a core, which a program that computes gets beside 19 others."""
_CPU_CHECK_S = 0.02
"""The least time between two looks at the CPU seconds used."""


def wall_seconds(cpu_seconds: float) -> float:
    """How long at most a program may take by the clock that may use so much CPU."""
    return cpu_seconds * COMPUTING


class Watch:
    """One run, seen from outside: its output, its end, the clock and the client."""

    def __init__(self, *, output: int, examiner: int, client: int) -> None:
        self._output = output
        self._examiner = examiner
        self._poll = select.poll()
        for descriptor in (output, examiner, client):
            self._poll.register(descriptor, select.POLLIN)
        self._client = client
        self.kept = bytearray()
        self.num_bytes = 0

    def end_before(self, deadline: float) -> str | None:
        """Why the run ended: ``exit``, ``output_limit`` or ``client_gone``; None: it did not."""
        while (remaining := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in self._poll.poll(remaining * 1000)}
            if self._client in ready:
                return "client_gone"
            if self._examiner in ready:
                return "exit"
            if self._output in ready and not self._take():
                self._poll.unregister(self._output)
            if self.num_bytes > MAX_OUTPUT_BYTES:
                return "output_limit"
        return None

    def drain(self) -> None:
        """Take what is left in the pipe; all its writers are dead."""
        while self._take():
            pass

    def _take(self) -> bool:
        chunk = os.read(self._output, 1 << 16)
        self.num_bytes += len(chunk)
        self.kept += chunk[: KEPT_OUTPUT_BYTES - len(self.kept)]
        return bool(chunk)


class Budget:
    """The CPU seconds of one candidate, and the time that it has by the clock to use them."""

    def __init__(self, pid: int, *, cpu_seconds: float, start: float) -> None:
        self._clock = kernel.cpu_clock(pid)
        self._cpu_seconds = cpu_seconds
        self._start = start

    def end(self, watch: Watch, grace_s: float) -> str:
        """Why the run ended; ``cpu_limit`` or ``deadline`` where it did not by itself.

        Args:
            watch: Sees it end.
            grace_s: How long the tests have after the time by the clock to say so themselves.
        """
        end = None
        patience = self._start + self._cpu_seconds * WAITING
        deadline = self._start + wall_seconds(self._cpu_seconds) + grace_s
        while end is None and (now := time.monotonic()) < deadline:
            used = self._used()
            if used >= self._cpu_seconds:
                return "cpu_limit"
            if now >= patience and used < _LEAST_SHARE * (now - self._start):
                break
            # A process with one thread uses no more CPU seconds than pass.
            until = now + max(self._cpu_seconds - used, _CPU_CHECK_S)
            end = watch.end_before(min(until, patience if now < patience else deadline))
        return end or "deadline"

    def _used(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            # It has ended, and the tests are about to notice.
            return 0.0
