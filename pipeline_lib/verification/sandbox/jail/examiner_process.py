"""The tests' process: judges one candidate after another, until it is not as good as new.

It lives longer than a candidate because a fork costs more than most tests. Only what plain values
and trusted tests do can change it, and it retires where they might have left something behind.
"""

import enum
import json
import os
import signal
import socket
from typing import NoReturn

from pipeline_lib.verdicts import Status
from pipeline_lib.verification.sandbox.examiner.examine import examine
from pipeline_lib.verification.sandbox.examiner.session import GONE, Session
from pipeline_lib.verification.sandbox.jail import kernel
from pipeline_lib.verification.sandbox.jail.descriptors import keep_only, read_all, socket_at
from pipeline_lib.verification.sandbox.jail.isolation import Jail, ProcessLimits, lock_down
from pipeline_lib.verification.sandbox.protocol.channel import Channel

MAX_RUNS = 100
"""After so many it is replaced, whatever they did: memory only fragments."""
_MESSAGE_BYTES = 256
_CONTROL = 3


class Note(enum.IntFlag):
    """What the examiner says at the end of a run, in one byte."""

    RETIRED = 1
    """It is not as good as new: another one must serve."""
    CANDIDATE_GONE = 2
    """The candidate closed its channel, so it is about to end by itself."""


class ExaminerProcess:
    """The warm interpreter's handle of one such process.

    Args:
        jail: How the process locks itself in; it shares the warm interpreter's view of files.
        limits: Its limits, over all its runs.
    """

    def __init__(self, jail: Jail, limits: ProcessLimits) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _be_examiner(theirs, jail, limits)
        theirs.close()

    def fileno(self) -> int:
        """Readable when a run is over, or this process is."""
        return self._control.fileno()

    def start(self, *, candidate: int, tests: int, finding: int, deadline: float) -> None:
        """Hand over the descriptors of one run.

        Raises:
            OSError: the process is gone.
        """
        message = json.dumps({"deadline": deadline}).encode()
        socket.send_fds(self._control, [message], [candidate, tests, finding])

    def finish(self) -> Note:
        """The note at the end of a run; one that died without a word has retired."""
        return Note((self._control.recv(1) or bytes([Note.RETIRED]))[0])

    def end(self) -> None:
        """Kill and reap it."""
        self._control.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _be_examiner(control: socket.socket, jail: Jail, limits: ProcessLimits) -> NoReturn:
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
        candidate, tests, finding = descriptors
        session = Session(Channel(candidate, deadline=json.loads(message)["deadline"]))
        found = examine(session, **json.loads(read_all(tests)))
        content = json.dumps({"status": found.status.value, "detail": found.detail})
        os.write(finding, content.encode())
        for descriptor in descriptors:
            os.close(descriptor)
        # After memory ran out, what it is short of next is anybody's guess.
        spent = session.may_leave_traces or found.status is Status.MEMORY or run == MAX_RUNS
        note = Note.RETIRED if spent else Note(0)
        control.send(bytes([note | (Note.CANDIDATE_GONE if found.detail == GONE else Note(0))]))
