"""Client of the processes that compare answers with SymPy; each comparison has a deadline.

The parent sends text and kills; it does not import SymPy or set signal handlers, so it works in any
thread and in Ray workers. Deadlines count CPU time, so outcomes do not depend on concurrent load.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math import worker_process
from pipeline_lib.verify.math.worker_process import MAX_MESSAGE_BYTES, Outcome

START_TIMEOUT_S = 120.0
RECYCLE_AFTER = 2000
"""Comparisons per process; SymPy's caches only grow."""
MAX_RESTARTS = 5
"""Failed starts in a row, above which an error is raised."""
MAX_STRETCH = 10
"""Wall-clock limit in multiples of the hard CPU limit, for a process that gets little CPU: five of
the pool, and others, may share its core."""
UNSETTLED = frozenset({Outcome.TIMEOUT, Outcome.MEMORY, Outcome.CRASHED})
"""Outcomes that say nothing about the answer; the process is not used again."""


class Question(NamedTuple):
    """Compare ``answer`` with ``gold``; without an answer, check that the gold can be parsed."""

    gold: str
    answer: str | None


class Reply(NamedTuple):
    """The outcome and its wall-clock seconds."""

    outcome: Outcome
    seconds: float


class Forker:
    """The process that has imported SymPy and forks others; started when it is needed. Thread-safe."""

    def __init__(self, limits: MathLimits) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self) -> tuple[socket.socket, int]:
        """Socket and pid of a new process; ReasonloopError: none can be started."""
        with self._lock:
            for _ in range(1 + MAX_RESTARTS):
                try:
                    if self._process is None:
                        self._start()
                    return self._fork()
                except OSError:
                    self._end()
        raise ReasonloopError(
            f"the math verifier's processes died {1 + MAX_RESTARTS} times; is memory short? "
            f"`{sys.executable} -m {worker_process.__name__} 0 {{}}` shows whether it can start"
        )

    def kill(self, pid: int) -> None:
        """Kill one of its processes."""
        with self._lock, contextlib.suppress(OSError):
            self._control.send(str(pid).encode())

    def close(self) -> None:
        """End the process and with it all that it forked."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [str(remote.fileno()), json.dumps(self.limits.model_dump())]
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
        self._receive()

    def _fork(self) -> tuple[socket.socket, int]:
        local, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with remote:
                socket.send_fds(self._control, [b"fork"], [remote.fileno()])
            return local, int(self._receive())
        except OSError:
            local.close()
            raise

    def _receive(self) -> bytes:
        data = self._control.recv(MAX_MESSAGE_BYTES)
        if not data:
            raise ConnectionResetError
        return data

    def _end(self) -> None:
        if self._process is None:
            return
        self._control.close()
        try:
            self._process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class MathWorker:
    """A `verify.pool.Worker` for comparisons; its process is replaced when it is lost or worn."""

    def __init__(self, forker: Forker) -> None:
        self._forker = forker
        self._socket: socket.socket | None = None
        self.pid = 0
        self.num_judged = 0

    def answer(self, question: Question) -> Reply:
        """The reply to one question; ReasonloopError: no process can be started."""
        reply = self._ask(question)
        # Asked again if its process died, in a new one.
        return self._ask(question) if reply.outcome is Outcome.CRASHED else reply

    def close(self) -> None:
        """Kill its process."""
        if self._socket is not None:
            self._socket.close()
            self._forker.kill(self.pid)
            self._socket = None

    def _ask(self, question: Question) -> Reply:
        if self._socket is None:
            self._socket, self.pid = self._forker.fork()
            self.num_judged = 0
        start_s = time.perf_counter()
        outcome = Outcome.CRASHED
        with contextlib.suppress(OSError):
            outcome = self._outcome(self._socket, question, start_s)
        self.num_judged += 1
        if outcome in UNSETTLED or self.num_judged >= RECYCLE_AFTER:
            self.close()
        return Reply(outcome, time.perf_counter() - start_s)

    def _outcome(self, process: socket.socket, question: Question, start_s: float) -> Outcome:
        hard_s = self._forker.limits.hard_timeout_s
        cpu_at_start_s, left_s = self._cpu_seconds(), hard_s
        process.send(json.dumps(question).encode())
        while left_s > 0:
            process.settimeout(left_s)
            with contextlib.suppress(TimeoutError):
                data = process.recv(MAX_MESSAGE_BYTES)
                return Outcome[data.decode()] if data else Outcome.CRASHED
            # The earliest time at which it can have used up its CPU time.
            cpu_left_s = hard_s - (self._cpu_seconds() - cpu_at_start_s)
            wall_left_s = start_s + MAX_STRETCH * hard_s - time.perf_counter()
            left_s = min(cpu_left_s, wall_left_s)
        return Outcome.TIMEOUT

    def _cpu_seconds(self) -> float:
        """CPU time of the process since its fork; 0 if it is gone."""
        with contextlib.suppress(OSError):
            # The clock of another process, as clock_getcpuclockid(3) computes it.
            return time.clock_gettime(~self.pid << 3 | 2)
        return 0.0
