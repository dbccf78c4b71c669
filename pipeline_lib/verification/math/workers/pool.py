"""Pool of killable processes for comparisons that need SymPy; each has a deadline.

The parent sends text and kills; it does not import SymPy, start threads or set signal handlers, so
it works in any thread and in Ray workers. A slow comparison frees its slot for the next one
(`stragglers`). Deadlines count CPU time, so outcomes do not depend on concurrent load.
"""

import collections
import contextlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import NamedTuple

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verification.math.workers.forker import DIAGNOSTIC_HINT, Forker, Worker
from pipeline_lib.verification.math.workers.worker_process import MAX_MESSAGE_BYTES, Outcome
from pipeline_lib.verification.stragglers import seconds_to_slot

RECYCLE_AFTER = 2000
"""Comparisons per process; SymPy's caches only grow."""
MAX_ATTEMPTS = 2
"""Attempts per comparison if its process dies, each in a new process."""

MAX_RESTARTS = 5
"""Losses of all processes per batch, above which an error is raised."""
MAX_STRETCH = 10
"""Wall-clock limit in multiples of the hard CPU limit, for a process that gets little CPU: five of
the pool, and others, may share its core."""


class Question(NamedTuple):
    """Compare ``answer`` with ``gold``; without an answer, check that the gold can be parsed."""

    gold: str
    answer: str | None


class Reply(NamedTuple):
    """The outcome and its wall-clock seconds."""

    outcome: Outcome
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Batch:
    """State of the questions of one call."""

    questions: Sequence[Question]
    waiting: collections.deque[int]
    attempts: collections.Counter[int] = field(default_factory=collections.Counter)
    replies: dict[int, Reply] = field(default_factory=dict)
    num_restarts: int = 0


class MathPool:
    """Up to ``num_workers`` processes with ``limits``, plus a few while some are slow.

    Thread-safe; calls are serialized.
    """

    def __init__(self, limits: MathLimits, *, num_workers: int) -> None:
        self._limits = limits
        self._num_workers = num_workers
        self._forker: Forker | None = None
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """End all processes and close all sockets."""
        with self._lock:
            self._abandon()

    def ask(self, questions: Sequence[Question]) -> list[Reply]:
        """One reply per question, in order; a slow question blocks only its own process.

        Raises:
            ReasonloopError: the processes cannot be started.
        """
        batch = _Batch(questions=questions, waiting=collections.deque(range(len(questions))))
        with self._lock:
            try:
                while len(batch.replies) < len(questions):
                    self._step(batch)
            finally:
                if self._busy:
                    # After an error, pending replies must not reach later questions.
                    self._abandon()
        return [batch.replies[index] for index in range(len(questions))]

    def _step(self, batch: _Batch) -> None:
        try:
            while batch.waiting and self._seconds_to_slot() <= 0:
                self._assign(batch)
            by_socket: dict[object, Worker] = {worker.socket: worker for worker in self._busy}
            due_s = min(worker.due_s for worker in self._busy) - time.perf_counter()
            pause_s = min(due_s, self._seconds_to_slot()) if batch.waiting else due_s
            for ready in wait([worker.socket for worker in self._busy], max(0.0, pause_s)):
                self._collect(by_socket[ready], batch)
            self._kill_late(batch)
        except OSError:
            self._start_over(batch)

    def _seconds_to_slot(self) -> float:
        started_s, now_s = [worker.started_s for worker in self._busy], time.perf_counter()
        return seconds_to_slot(started_s, num_workers=self._num_workers, now_s=now_s)

    def _assign(self, batch: _Batch) -> None:
        worker = self._fresh_or_idle()
        worker.index = batch.waiting.popleft()
        worker.started_s = time.perf_counter()
        worker.due_s = worker.started_s + self._limits.hard_timeout_s
        worker.cpu_at_start_s = worker.cpu_seconds()
        batch.attempts[worker.index] += 1
        self._busy.append(worker)
        # If the worker died while idle, _collect handles the closed socket.
        with contextlib.suppress(OSError):
            worker.socket.send(json.dumps(batch.questions[worker.index]).encode())

    def _fresh_or_idle(self) -> Worker:
        if self._idle:
            return self._idle.pop()
        if self._forker is None:
            self._forker = Forker(self._limits)
        return self._forker.fork()

    def _collect(self, worker: Worker, batch: _Batch) -> None:
        try:
            data = worker.socket.recv(MAX_MESSAGE_BYTES)
        except OSError:
            data = b""
        outcome = Outcome(data.decode()) if data else Outcome.CRASHED
        worker.num_judged += 1
        spent = outcome in {Outcome.TIMEOUT, Outcome.MEMORY, Outcome.CRASHED}
        self._settle(worker, outcome, batch)
        self._release(worker, reuse=not spent and worker.num_judged < RECYCLE_AFTER)

    def _kill_late(self, batch: _Batch) -> None:
        now_s, hard_s = time.perf_counter(), self._limits.hard_timeout_s
        for worker in [worker for worker in self._busy if worker.due_s <= now_s]:
            cpu_left_s = hard_s - (worker.cpu_seconds() - worker.cpu_at_start_s)
            worker.due_s = min(now_s + cpu_left_s, worker.started_s + MAX_STRETCH * hard_s)
            if worker.due_s <= now_s:
                self._settle(worker, Outcome.TIMEOUT, batch)
                self._release(worker, reuse=False)

    def _release(self, worker: Worker, *, reuse: bool) -> None:
        self._busy.remove(worker)
        if reuse and len(self._idle) < self._num_workers:
            self._idle.append(worker)
        elif self._forker is not None:
            self._forker.stop(worker)

    def _settle(self, worker: Worker, outcome: Outcome, batch: _Batch) -> None:
        if outcome is Outcome.CRASHED and batch.attempts[worker.index] < MAX_ATTEMPTS:
            batch.waiting.append(worker.index)
            return
        seconds = time.perf_counter() - worker.started_s
        batch.replies[worker.index] = Reply(outcome, seconds)

    def _start_over(self, batch: _Batch) -> None:
        """Restart after the death of forker and workers, and ask their questions again."""
        lost = list(self._busy)
        self._abandon()
        batch.num_restarts += 1
        if batch.num_restarts > MAX_RESTARTS:
            raise ReasonloopError(
                f"the math verifier's processes died {batch.num_restarts} times; is memory short? "
                f"{DIAGNOSTIC_HINT}"
            )
        for worker in lost:
            self._settle(worker, Outcome.CRASHED, batch)

    def _abandon(self) -> None:
        for worker in (*self._busy, *self._idle):
            worker.socket.close()
        self._busy.clear()
        self._idle.clear()
        if self._forker is not None:
            self._forker.close()
            self._forker = None
