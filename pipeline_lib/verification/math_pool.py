"""Killable processes for comparisons that need SymPy: one item at a time, each with a deadline.

The parent only passes text and kills; it imports no SymPy, starts no thread, touches no signal
handler, and so works the same from the main thread, another thread, or a Ray worker. The processes
themselves are `math_worker`.
"""

import collections
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params import MathLimits
from pipeline_lib.verification import math_worker
from pipeline_lib.verification.math_worker import MAX_MESSAGE_BYTES, Outcome

START_TIMEOUT_S = 120.0
RECYCLE_AFTER = 500
"""Comparisons that one process does at most: SymPy's caches only grow."""
MAX_ATTEMPTS = 2
"""A comparison whose process died is tried once more, in a fresh one."""

MAX_RESTARTS = 5
"""How often one batch may lose all processes at once before it is our error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Is ``answer`` equal to ``gold``? Without an answer: can the gold be read at all?"""

    gold: str
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The outcome and its wall-clock seconds."""

    outcome: Outcome
    seconds: float


class _GoneError(Exception):
    """The forking process is not there any more."""


class _Forker:
    """The process that imported SymPy and forks workers."""

    def __init__(self, limits: MathLimits) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [str(theirs.fileno()), json.dumps(limits.model_dump())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-W", "ignore", "-m", math_worker.__name__, *arguments],
                env={
                    "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
                    "PYTHONHASHSEED": "0",
                    "PATH": os.defpath,
                },
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control.settimeout(START_TIMEOUT_S)
        try:
            self._receive()
        except _GoneError as error:
            self.close()
            raise ReasonloopError(
                f"the math verifier could not start; `{sys.executable} -m {math_worker.__name__} "
                "0 {}` shows why"
            ) from error

    def fork(self) -> "_Worker":
        """A fresh worker.

        Raises:
            _GoneError: this process has died.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
            return _Worker(socket=ours, pid=int(self._receive()))
        except (OSError, _GoneError) as error:
            ours.close()
            raise _GoneError from error

    def _receive(self) -> bytes:
        try:
            data = self._control.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            raise _GoneError from error
        if not data:
            raise _GoneError
        return data

    def stop(self, worker: "_Worker") -> None:
        """Kill one worker, whatever it is doing."""
        worker.socket.close()
        try:
            self._control.send(str(worker.pid).encode())
        except OSError as error:
            raise _GoneError from error

    def close(self) -> None:
        """End the process; its workers die with it."""
        self._control.close()
        try:
            self._process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


@dataclass(slots=True, kw_only=True, eq=False)
class _Worker:
    socket: socket.socket
    pid: int
    num_judged: int = 0
    index: int = -1
    """Position of the question in hand."""
    started_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Questions of one call: not yet asked, being answered, answered."""

    questions: Sequence[Question]
    waiting: collections.deque[int]
    attempts: collections.Counter[int] = field(default_factory=collections.Counter)
    replies: dict[int, Reply] = field(default_factory=dict)
    num_restarts: int = 0


class MathPool:
    """Up to ``num_workers`` processes under ``limits``. Calls from several threads take turns."""

    def __init__(self, limits: MathLimits, *, num_workers: int) -> None:
        self._limits = limits
        self._num_workers = num_workers
        self._forker: _Forker | None = None
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """End all processes and close all sockets."""
        with self._lock:
            self._abandon()

    def ask(self, questions: Sequence[Question]) -> list[Reply]:
        """One reply per question, in order; a slow one holds up nobody but its own process.

        Raises:
            ReasonloopError: the processes cannot be started at all.
        """
        batch = _Batch(questions=questions, waiting=collections.deque(range(len(questions))))
        with self._lock:
            try:
                while len(batch.replies) < len(questions):
                    self._step(batch)
            finally:
                if self._busy:
                    # Only an error leaves questions in hand: their replies must not meet others.
                    self._abandon()
        return [batch.replies[index] for index in range(len(questions))]

    def _step(self, batch: _Batch) -> None:
        try:
            while batch.waiting and len(self._busy) < self._num_workers:
                self._assign(batch)
            now = time.perf_counter()
            oldest = min((worker.started_s for worker in self._busy), default=now)
            patience_s = max(0.0, oldest + self._limits.hard_timeout_s - now)
            by_socket = {worker.socket: worker for worker in self._busy}
            for ready in wait(list(by_socket), patience_s):
                assert isinstance(ready, socket.socket)
                self._collect(by_socket[ready], batch)
            self._kill_late(batch)
        except _GoneError:
            self._start_over(batch)

    def _assign(self, batch: _Batch) -> None:
        worker = self._fresh_or_idle()
        worker.index = batch.waiting.popleft()
        worker.started_s = time.perf_counter()
        batch.attempts[worker.index] += 1
        self._busy.append(worker)
        question = batch.questions[worker.index]
        message = json.dumps({"gold": question.gold, "answer": question.answer})
        try:
            worker.socket.send(message.encode())
        except OSError:
            # It died while idle; its socket reads as closed, which _collect handles.
            return

    def _fresh_or_idle(self) -> _Worker:
        if self._idle:
            return self._idle.pop()
        if self._forker is None:
            self._forker = _Forker(self._limits)
        return self._forker.fork()

    def _collect(self, worker: _Worker, batch: _Batch) -> None:
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
        deadline = time.perf_counter() - self._limits.hard_timeout_s
        for worker in [worker for worker in self._busy if worker.started_s <= deadline]:
            self._settle(worker, Outcome.TIMEOUT, batch)
            self._release(worker, reuse=False)

    def _release(self, worker: _Worker, *, reuse: bool) -> None:
        self._busy.remove(worker)
        if reuse:
            self._idle.append(worker)
        elif self._forker is not None:
            self._forker.stop(worker)

    def _settle(self, worker: _Worker, outcome: Outcome, batch: _Batch) -> None:
        if outcome is Outcome.CRASHED and batch.attempts[worker.index] < MAX_ATTEMPTS:
            batch.waiting.append(worker.index)
            return
        seconds = time.perf_counter() - worker.started_s
        batch.replies[worker.index] = Reply(outcome=outcome, seconds=seconds)

    def _start_over(self, batch: _Batch) -> None:
        """The forking process died, and all workers with it: their questions are asked again."""
        lost = list(self._busy)
        self._abandon()
        batch.num_restarts += 1
        if batch.num_restarts > MAX_RESTARTS:
            raise ReasonloopError(
                f"the math verifier's processes died {batch.num_restarts} times; is memory short?"
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
