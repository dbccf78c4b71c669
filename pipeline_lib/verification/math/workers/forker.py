"""The parent's ends of the processes that compare with SymPy: start them, read their clock, kill.

Which question goes to which of them, and for how long, `pool` decides.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verification.math.workers import worker_process
from pipeline_lib.verification.math.workers.worker_process import MAX_MESSAGE_BYTES

START_TIMEOUT_S = 120.0


HOW_TO_SEE = f"`{sys.executable} -m {worker_process.__name__} 0 {{}}` shows whether it can start"


class GoneError(Exception):
    """The forking process is not there (any more)."""


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """One comparing process, and the question that it has in hand."""

    socket: socket.socket
    pid: int
    num_judged: int = 0
    index: int = -1
    """Position of the question."""
    started_s: float = 0.0
    cpu_at_start_s: float = 0.0
    due_s: float = 0.0
    """When to look at its clock: before, it cannot have used up its time."""

    def cpu_seconds(self) -> float:
        """What it has computed for since it was forked; 0 if it is gone."""
        clock = ctypes.c_int()
        if ctypes.CDLL(None).clock_getcpuclockid(self.pid, ctypes.byref(clock)):
            return 0.0
        try:
            return time.clock_gettime(clock.value)
        except OSError:
            return 0.0


class Forker:
    """The process that imported SymPy and forks workers.

    Raises:
        GoneError: it did not come to its start, since it was killed or cannot start at all.
    """

    def __init__(self, limits: MathLimits) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [str(theirs.fileno()), json.dumps(limits.model_dump())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-W", "ignore", "-m", worker_process.__name__, *arguments],
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
        except BaseException:
            self.close()
            raise

    def fork(self) -> Worker:
        """A fresh worker.

        Raises:
            GoneError: this process has died.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
            return Worker(socket=ours, pid=int(self._receive()))
        except (OSError, GoneError) as error:
            ours.close()
            raise GoneError from error

    def _receive(self) -> bytes:
        try:
            data = self._control.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            raise GoneError from error
        if not data:
            raise GoneError
        return data

    def stop(self, worker: Worker) -> None:
        """Kill one worker, whatever it is doing.

        Raises:
            GoneError: this process has died.
        """
        worker.socket.close()
        try:
            self._control.send(str(worker.pid).encode())
        except OSError as error:
            raise GoneError from error

    def close(self) -> None:
        """End the process; its workers die with it."""
        self._control.close()
        try:
            self._process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
