"""Examiner process: runs the tests of one candidate after another, until it must be replaced.

It outlives candidates because a fork costs more than most tests. Only plain values and trusted
tests can change its state; it retires after a run that may have left state behind.
"""

import enum
import json
import os
import signal
import socket
from typing import NoReturn

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.examine import examine
from pipeline_lib.verification.sandbox.examiner.session import GONE
from pipeline_lib.verification.sandbox.jail import kernel
from pipeline_lib.verification.sandbox.jail.descriptors import keep_only, read_all, socket_at
from pipeline_lib.verification.sandbox.jail.isolation import Jail, ProcessLimits, lock_down
from pipeline_lib.verification.sandbox.protocol.channel import Channel

MAX_RUNS = 100
"""Runs until replacement in any case, because memory fragments."""
_MESSAGE_BYTES = 256
_CONTROL = 3


class Note(enum.IntFlag):
    """The examiner's message at the end of a run, in one byte."""

    RETIRED = 1
    """It may hold state of this run and must be replaced."""
    CANDIDATE_GONE = 2
    """The candidate closed its channel and is about to exit."""


class ExaminerProcess:
    """The warm interpreter's handle of one examiner process.

    Args:
        jail: Isolation of the process; it shares the warm interpreter's view of files.
        limits: Limits over all its runs.
    """

    def __init__(self, jail: Jail, limits: ProcessLimits) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _run_examiner(theirs, jail, limits)
        theirs.close()

    def fileno(self) -> int:
        """Readable when a run or the process has ended."""
        return self._control.fileno()

    def start(self, *, candidate: int, tests: int, result: int, deadline: float) -> None:
        """Send the descriptors of one run.

        Raises:
            OSError: the process is gone.
        """
        message = json.dumps({"deadline": deadline}).encode()
        socket.send_fds(self._control, [message], [candidate, tests, result])

    def finish(self) -> Note:
        """The note at the end of a run; RETIRED if the process died."""
        return Note((self._control.recv(1) or bytes([Note.RETIRED]))[0])

    def end(self) -> None:
        """Kill and reap it."""
        self._control.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _run_examiner(control: socket.socket, jail: Jail, limits: ProcessLimits) -> NoReturn:
    try:
        os.setsid()
        kernel.die_with_parent()
        keep_only(control.fileno())
        lock_down(jail, limits)
        _serve(socket_at(_CONTROL))
    finally:
        os._exit(0)


def _serve(control: socket.socket) -> None:
    for run in range(1, MAX_RUNS + 1):
        message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 3)
        if not message:
            return
        candidate, tests, result = descriptors
        channel = Channel(candidate, deadline=json.loads(message)["deadline"])
        examination = examine(channel, **json.loads(read_all(tests)))
        found = examination.result
        content = json.dumps({"status": found.status.value, "detail": found.detail})
        os.write(result, content.encode())
        for descriptor in descriptors:
            os.close(descriptor)
        # After a MemoryError the state of the process is unknown.
        spent = examination.leaves_state or found.status is Status.MEMORY or run == MAX_RUNS
        note = Note.RETIRED if spent else Note(0)
        control.send(bytes([note | (Note.CANDIDATE_GONE if found.detail == GONE else Note(0))]))
