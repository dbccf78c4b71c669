"""Handles of the processes that compare with SymPy: start them, read their CPU clock, kill them.

Scheduling and deadlines are in `pool`.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verification.math.workers import worker_process
from pipeline_lib.verification.math.workers.worker_process import MAX_MESSAGE_BYTES

START_TIMEOUT_S = 120.0
DIAGNOSTIC_HINT = (
    f"`{sys.executable} -m {worker_process.__name__} 0 {{}}` shows whether it can start"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """One worker process, with its current question."""

    socket: socket.socket
    pid: int
    num_judged: int = 0
    index: int = -1
    """Position of the question."""
    started_s: float = 0.0
    cpu_at_start_s: float = 0.0
    due_s: float = 0.0
    """Earliest time at which it can have used up its CPU time."""

    def cpu_seconds(self) -> float:
        """CPU time since the fork; 0 if the process is gone."""
        with contextlib.suppress(OSError):
            # The clock of another process, as clock_getcpuclockid(3) computes it.
            return time.clock_gettime(~self.pid << 3 | 2)
        return 0.0


class Forker:
    """The process that has imported SymPy and forks workers.

    Its methods, and the constructor, raise OSError if it has died or cannot start.
    """

    def __init__(self, limits: MathLimits) -> None:
        self._control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [str(remote.fileno()), json.dumps(limits.model_dump())]
        path = os.pathsep.join(path or "." for path in sys.path)
        with remote:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed module
                [sys.executable, "-W", "ignore", "-m", worker_process.__name__, *arguments],
                env={"PYTHONPATH": path, "PYTHONHASHSEED": "0", "PATH": os.defpath},
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self._control.settimeout(START_TIMEOUT_S)
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def fork(self) -> Worker:
        """A fresh worker."""
        local, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with remote:
                socket.send_fds(self._control, [b"fork"], [remote.fileno()])
            return Worker(socket=local, pid=int(self._receive()))
        except OSError:
            local.close()
            raise

    def _receive(self) -> bytes:
        data = self._control.recv(MAX_MESSAGE_BYTES)
        if not data:
            raise ConnectionResetError
        return data

    def stop(self, worker: Worker) -> None:
        """Kill one worker."""
        worker.socket.close()
        self._control.send(str(worker.pid).encode())

    def close(self) -> None:
        """End the process and with it all workers."""
        self._control.close()
        try:
            self._process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
