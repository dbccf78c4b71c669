"""Pool of killable processes for comparisons that need SymPy; each has a deadline.

The parent sends text and kills; it does not import SymPy, start threads or set signal handlers, so
it works in any thread and in Ray workers. A slow comparison frees its slot for the next one
(`stragglers`). Deadlines count CPU time, so outcomes do not depend on concurrent load.
"""

import collections
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import NamedTuple

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math.workers import worker_process
from pipeline_lib.verify.math.workers.worker_process import MAX_MESSAGE_BYTES, Outcome
from pipeline_lib.verify.stragglers import seconds_to_slot

START_TIMEOUT_S = 120.0
RECYCLE_AFTER = 2000
"""Comparisons per process; SymPy's caches only grow."""
MAX_ATTEMPTS = 2
"""Attempts per comparison if its process dies, each in a new process."""
MAX_RESTARTS = 5
"""Losses of all processes per batch, above which an error is raised."""
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


@dataclass(slots=True, eq=False)
class _Job:
    """A question, how often it was asked, and its reply."""

    question: Question
    attempts: int = 0
    reply: Reply | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Worker:
    """A worker process, with the times of its current job."""

    socket: socket.socket
    pid: int
    num_judged: int = 0
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


class _Forker:
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

    def fork(self) -> _Worker:
        local, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with remote:
                socket.send_fds(self._control, [b"fork"], [remote.fileno()])
            return _Worker(socket=local, pid=int(self._receive()))
        except OSError:
            local.close()
            raise

    def _receive(self) -> bytes:
        data = self._control.recv(MAX_MESSAGE_BYTES)
        if not data:
            raise ConnectionResetError
        return data

    def stop(self, worker: _Worker) -> None:
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


class MathPool:
    """Up to ``num_workers`` processes with ``limits``, plus a few while some are slow.

    Thread-safe; calls are serialized.
    """

    def __init__(self, limits: MathLimits, *, num_workers: int) -> None:
        self._limits = limits
        self._num_workers = num_workers
        self._forker: _Forker | None = None
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, _Job] = {}
        self._waiting: collections.deque[_Job] = collections.deque()
        self._num_restarts = 0
        self._lock = threading.RLock()

    def close(self) -> None:
        """End all processes and close all sockets."""
        with self._lock:
            for worker in (*self._busy, *self._idle):
                worker.socket.close()
            self._busy.clear()
            self._idle.clear()
            if self._forker is not None:
                self._forker.close()
                self._forker = None

    def ask(self, questions: Sequence[Question]) -> list[Reply]:
        """One reply per question, in order; a slow question blocks only its own process.

        Raises:
            ReasonloopError: the processes cannot be started.
        """
        jobs = [_Job(question) for question in questions]
        with self._lock:
            self._waiting = collections.deque(jobs)
            self._num_restarts = 0
            try:
                while self._waiting or self._busy:
                    self._step()
            finally:
                if self._busy:
                    # After an error, pending replies must not reach later questions.
                    self.close()
        return [job.reply for job in jobs if job.reply]

    def _step(self) -> None:
        try:
            while self._waiting and self._seconds_to_slot() <= 0:
                self._assign()
            due_s = min(worker.due_s for worker in self._busy) - time.perf_counter()
            pause_s = min(due_s, self._seconds_to_slot()) if self._waiting else due_s
            ready = wait([worker.socket for worker in self._busy], max(0.0, pause_s))
            for worker in [worker for worker in self._busy if worker.socket in ready]:
                data = b""
                with contextlib.suppress(OSError):
                    data = worker.socket.recv(MAX_MESSAGE_BYTES)
                self._settle(worker, Outcome[data.decode()] if data else Outcome.CRASHED)
            self._kill_late()
        except OSError:
            self._start_over()

    def _seconds_to_slot(self) -> float:
        started_s, now_s = [worker.started_s for worker in self._busy], time.perf_counter()
        return seconds_to_slot(started_s, num_workers=self._num_workers, now_s=now_s)

    def _assign(self) -> None:
        worker = self._fresh_or_idle()
        job = self._busy[worker] = self._waiting.popleft()
        job.attempts += 1
        worker.started_s = time.perf_counter()
        worker.due_s = worker.started_s + self._limits.hard_timeout_s
        worker.cpu_at_start_s = worker.cpu_seconds()
        # If the worker died while idle, `_step` reads nothing from it.
        with contextlib.suppress(OSError):
            worker.socket.send(json.dumps(job.question).encode())

    def _fresh_or_idle(self) -> _Worker:
        if self._idle:
            return self._idle.pop()
        if self._forker is None:
            self._forker = _Forker(self._limits)
        return self._forker.fork()

    def _kill_late(self) -> None:
        now_s, hard_s = time.perf_counter(), self._limits.hard_timeout_s
        for worker in [worker for worker in self._busy if worker.due_s <= now_s]:
            cpu_left_s = hard_s - (worker.cpu_seconds() - worker.cpu_at_start_s)
            worker.due_s = min(now_s + cpu_left_s, worker.started_s + MAX_STRETCH * hard_s)
            if worker.due_s <= now_s:
                self._settle(worker, Outcome.TIMEOUT)

    def _settle(self, worker: _Worker, outcome: Outcome) -> None:
        job = self._busy.pop(worker)
        if outcome is Outcome.CRASHED and job.attempts < MAX_ATTEMPTS:
            self._waiting.append(job)
        else:
            job.reply = Reply(outcome, time.perf_counter() - worker.started_s)
        worker.num_judged += 1
        fit = outcome not in UNSETTLED and worker.num_judged < RECYCLE_AFTER
        if fit and len(self._idle) < self._num_workers:
            self._idle.append(worker)
        elif self._forker is not None:
            self._forker.stop(worker)

    def _start_over(self) -> None:
        """Restart after the death of forker and workers, and ask their questions again."""
        lost = dict(self._busy)
        self.close()
        self._num_restarts += 1
        if self._num_restarts > MAX_RESTARTS:
            raise ReasonloopError(
                f"the math verifier's processes died {self._num_restarts} times; is memory short? "
                f"`{sys.executable} -m {worker_process.__name__} 0 {{}}` shows whether it can start"
            )
        self._busy = lost
        for worker in [*lost]:
            self._settle(worker, Outcome.CRASHED)
