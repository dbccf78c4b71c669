"""Examiner process: runs the tests of one candidate after another, until it must be replaced.

It outlives candidates because a fork costs more than most tests. Only plain values and trusted
tests can change its state; it retires after a run that may have left state behind.
"""

import json
import os
import signal
import socket
from collections.abc import Sequence
from typing import NoReturn

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner.examine import examine
from pipeline_lib.verify.sandbox.jail.isolation import Jail, lock_down
from pipeline_lib.verify.sandbox.protocol.channel import Channel

MAX_RUNS = 100
"""Runs until replacement in any case, because memory fragments."""
_CONTROL = 3
_REUSABLE, _SPENT = b"r", b"s"
"""Its message at the end of a run."""


class ExaminerProcess:
    """The warm interpreter's handle of one examiner process.

    Args:
        jail: Isolation of the process; it shares the warm interpreter's view of files.
        memory_bytes: Its address space.
        cpu_seconds: Limit of one run; it applies to all runs together.
    """

    def __init__(self, jail: Jail, memory_bytes: int, cpu_seconds: int) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _run_examiner(theirs.fileno(), jail, memory_bytes, cpu_seconds * MAX_RUNS)
        theirs.close()

    def fileno(self) -> int:
        """Readable when a run or the process has ended."""
        return self._control.fileno()

    def start(self, descriptors: Sequence[int]) -> None:
        """Send the descriptors of one run: the candidate's channel, the tests, the result.

        Raises:
            OSError: the process is gone.
        """
        socket.send_fds(self._control, [b"run"], descriptors)

    def is_reusable(self) -> bool:
        """Read its message at the end of a run; False if it died or may hold state of the run."""
        return self._control.recv(1) == _REUSABLE

    def end(self) -> None:
        """Kill and reap it."""
        self._control.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _run_examiner(control: int, jail: Jail, memory_bytes: int, cpu_seconds: int) -> NoReturn:
    try:
        lock_down(jail, [control], memory_bytes, cpu_seconds)
        _serve(socket.socket(fileno=_CONTROL))
    finally:
        os._exit(0)


def _serve(control: socket.socket) -> None:
    for run in range(1, MAX_RUNS + 1):
        message, descriptors, *_ = socket.recv_fds(control, 16, 3)
        if not message:
            return
        candidate, tests, result = descriptors
        suite = json.loads(os.pread(tests, os.fstat(tests).st_size, 0))
        found = examine(Channel(candidate), **suite)
        os.write(result, json.dumps({"status": found.status, "detail": found.detail}).encode())
        for descriptor in descriptors:
            os.close(descriptor)
        # After a MemoryError the state of the process is unknown.
        spent = found.leaves_state or found.status is Status.MEMORY or run == MAX_RUNS
        control.send(_SPENT if spent else _REUSABLE)
