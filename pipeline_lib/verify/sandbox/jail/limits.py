"""Limits of one run: CPU seconds of the candidate, wall-clock time, and output.

The limit that decides is on CPU seconds, because wall-clock time depends on the load of the
machine. The wall-clock limit only ends runs that wait or get no CPU; these are inconclusive.
"""

import os
import select
import time

from pipeline_lib.verify.sandbox.jail import kernel

MESSAGE_BYTES = 4096
"""Of a message between client and interpreter."""
MAX_OUTPUT_BYTES = 1 << 20
WALL_FACTOR_IDLE = 2.5
"""Wall-clock limit as a multiple of the CPU limit, for a program that mostly waits."""
WALL_FACTOR_BUSY = 3.5
"""The same for a program that computes: six programs may share two cores."""
_LEAST_SHARE = 0.05
"""Share of a core above which a program counts as computing (20 programs on one core)."""
_CPU_CHECK_S = 0.02
"""Shortest interval between two readings of the CPU clock."""


def wall_seconds(cpu_seconds: float) -> float:
    """The wall-clock limit of a program with this CPU limit."""
    return cpu_seconds * WALL_FACTOR_BUSY


class Watch:
    """Watches the candidate ``pid`` from outside until it ends or a limit is reached.

    What it prints is moved from the pipe ``output`` to the file ``kept``; ``examiner`` is readable at
    the end of the run, ``client`` when the client is gone.
    """

    def __init__(
        self, pid: int, cpu_seconds: float, *, output: int, kept: int, examiner: int, client: int
    ) -> None:
        self._start = time.monotonic()
        self._clock = kernel.cpu_clock(pid)
        self._cpu_seconds = cpu_seconds
        self._output = output
        self._kept = kept
        self._examiner = examiner
        self._client = client
        self._poll = select.poll()
        for descriptor in (output, examiner, client):
            self._poll.register(descriptor, select.POLLIN)
        self._num_bytes = 0

    def end_within(self, seconds: float) -> str | None:
        """``exit``, ``output_limit`` or ``client_gone`` if the run ends by then, else None."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in self._poll.poll(remaining * 1000)}
            if self._client in ready:
                return "client_gone"
            if self._examiner in ready:
                return "exit"
            if self._output in ready and not self._take():
                self._poll.unregister(self._output)
            if self._num_bytes > MAX_OUTPUT_BYTES:
                return "output_limit"
        return None

    def end(self) -> str:
        """How the run ended; ``cpu_limit`` or ``deadline`` if it must be killed."""
        end = None
        patience = self._start + self._cpu_seconds * WALL_FACTOR_IDLE
        deadline = self._start + wall_seconds(self._cpu_seconds)
        while end is None and (now := time.monotonic()) < deadline:
            used = self._used()
            if used >= self._cpu_seconds:
                return "cpu_limit"
            if now >= patience and used < _LEAST_SHARE * (now - self._start):
                break
            # A single thread uses at most one CPU second per second.
            until_limit = max(self._cpu_seconds - used, _CPU_CHECK_S)
            end = self.end_within(
                min(until_limit, (patience if now < patience else deadline) - now)
            )
        return end or "deadline"

    def printed_too_much(self) -> bool:
        """Take the rest of the output; all its writers are dead. True if it exceeds the limit."""
        while self._take():
            pass
        return self._num_bytes > MAX_OUTPUT_BYTES

    def _take(self) -> bool:
        # Spliced, not read: all later candidates inherit the memory of this process.
        moved = os.splice(self._output, self._kept, 1 << 16)
        self._num_bytes += moved
        return bool(moved)

    def _used(self) -> float:
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            # The process has ended; the examiner is about to report it.
            return 0.0
