"""The warm interpreter in the jail: forks a tests process and a candidate for each program.

Started by ``client`` as a fresh interpreter with a scrubbed environment. It never reads a program or
its tests itself, only passes descriptors on, so nothing of one run can be seen by the next. Two
processes a program, candidate and tests, with a socket between them.
"""

import ast
import contextlib
import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from pipeline_lib.verification.sandbox import kernel
from pipeline_lib.verification.sandbox.candidate_process import serve_calls
from pipeline_lib.verification.sandbox.channel import Channel
from pipeline_lib.verification.sandbox.examiner import Session, examine
from pipeline_lib.verification.sandbox.jails import (
    Jail,
    LandlockJail,
    NamespaceJail,
    ProcessLimits,
    lock_down,
    process_filter,
)
from pipeline_lib.verification.sandbox.negative_control import alter_one
from pipeline_lib.verification.sandbox.plain_values import decode, encode

_JAILS: dict[str, type[Jail]] = {"namespace": NamespaceJail, "landlock": LandlockJail}
KEPT_OUTPUT_BYTES = 64 << 10
MAX_OUTPUT_BYTES = 1 << 20
TESTS_EXTRA_BYTES = 512 << 20
"""Room for the tests process beyond the candidate's limit: it holds what the candidate returns."""
HARD_DEADLINE_GRACE_S = 1.0
_REQUEST_BYTES = 4096
_WARM_MODULES = """
array bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq io
itertools json math operator random re statistics string textwrap typing
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Descriptors of one run, as they came from the client."""

    program: int
    """The candidate's source."""
    tests: int
    """What :func:`_be_tests` reads: entry point, tests, whether to alter them."""
    finding: int
    """Where the tests process writes its finding."""

    def close(self) -> None:
        """Let go of them in this process."""
        for descriptor in (self.program, self.tests, self.finding):
            os.close(descriptor)


class Zygote:
    """Serves one run after another until the client is gone.

    Args:
        jail: How the candidate's process is kept apart.
        memory_bytes: Address space of the candidate's process.
        client: A descriptor that becomes readable when the client is gone.
    """

    def __init__(self, jail: Jail, *, memory_bytes: int, client: int) -> None:
        self._jail = jail
        self._memory_bytes = memory_bytes
        self._client = client

    def serve(self, control: socket.socket) -> None:
        """Answer requests on ``control`` in turn."""
        while True:
            ready = select.select([control.fileno(), self._client], [], [])[0]
            if self._client in ready:
                return
            message, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 3)
            if not message:
                return
            job = Job(program=descriptors[0], tests=descriptors[1], finding=descriptors[2])
            report = self.run(job, timeout_s=json.loads(message)["timeout_s"])
            if report is None:
                return
            control.sendall(json.dumps(report).encode() + b"\n")

    def run(self, job: Job, *, timeout_s: float) -> dict[str, Any] | None:
        """Run one program; None when the client went away meanwhile."""
        output, output_end = os.pipe()
        candidate_end, tests_end = socket.socketpair()
        cpu_seconds = int(timeout_s) + 2
        candidate_pid = self._jail.fork_candidate()
        if candidate_pid == 0:
            self._be_candidate(job.program, candidate_end, output_end, cpu_seconds)
        tests_pid = os.fork()
        if tests_pid == 0:
            self._be_tests(job, tests_end, timeout_s, cpu_seconds)
        job.close()
        os.close(output_end)
        candidate_end.close()
        tests_end.close()
        pidfds = [os.pidfd_open(pid) for pid in (tests_pid, candidate_pid)]
        watch = _Watch(output=output, tests=pidfds[0], client=self._client)
        end = watch.until_end(time.monotonic() + timeout_s + HARD_DEADLINE_GRACE_S)
        candidate_status = _kill_and_reap(pidfds, candidate_pid)
        watch.drain()
        for descriptor in (*pidfds, output):
            os.close(descriptor)
        if end == "client_gone":
            return None
        return {
            "end": "output_limit" if watch.num_bytes > MAX_OUTPUT_BYTES else end,
            "candidate_status": candidate_status,
            "output": watch.kept.decode("utf-8", "replace"),
        }

    def _be_candidate(
        self, program: int, end: socket.socket, output: int, cpu_seconds: int
    ) -> NoReturn:
        try:
            os.setsid()
            kernel.die_with_parent()
            os.dup2(output, 1)
            os.dup2(output, 2)
            _keep_only(end.fileno(), program)
            source = _read_all(4)
            os.close(4)
            self._jail.separate()
            limits = ProcessLimits(memory_bytes=self._memory_bytes, cpu_seconds=cpu_seconds)
            lock_down(self._jail, limits)
            serve_calls(source, Channel(_socket_at(3)))
        finally:
            os._exit(1)

    def _be_tests(
        self, job: Job, end: socket.socket, timeout_s: float, cpu_seconds: int
    ) -> NoReturn:
        try:
            deadline = time.monotonic() + timeout_s
            # Too short-lived to be worth it; collecting would copy the pages that it shares.
            gc.disable()
            os.setsid()
            kernel.die_with_parent()
            _keep_only(end.fileno(), job.tests, job.finding)
            memory_bytes = self._memory_bytes + TESTS_EXTRA_BYTES
            lock_down(self._jail, ProcessLimits(memory_bytes=memory_bytes, cpu_seconds=cpu_seconds))
            session = Session(Channel(_socket_at(3), deadline=deadline))
            finding = examine(session, **json.loads(_read_all(4)))
            content = json.dumps({"status": finding.status.value, "detail": finding.detail})
            os.write(5, content.encode())
        finally:
            os._exit(0)


class _Watch:
    """One run, seen from outside: its output, its end, the clock and the client."""

    def __init__(self, *, output: int, tests: int, client: int) -> None:
        self._output = output
        self._tests = tests
        self._poll = select.poll()
        for descriptor in (output, tests, client):
            self._poll.register(descriptor, select.POLLIN)
        self._client = client
        self.kept = bytearray()
        self.num_bytes = 0

    def until_end(self, deadline: float) -> str:
        """Why the run ended: ``exit``, ``deadline``, ``output_limit`` or ``client_gone``."""
        while (remaining := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in self._poll.poll(remaining * 1000)}
            if self._client in ready:
                return "client_gone"
            if self._tests in ready:
                return "exit"
            if self._output in ready and not self._take():
                self._poll.unregister(self._output)
            if self.num_bytes > MAX_OUTPUT_BYTES:
                return "output_limit"
        return "deadline"

    def drain(self) -> None:
        """Take what is left in the pipe; all its writers are dead."""
        while self._take():
            pass

    def _take(self) -> bool:
        chunk = os.read(self._output, 1 << 16)
        self.num_bytes += len(chunk)
        self.kept += chunk[: KEPT_OUTPUT_BYTES - len(self.kept)]
        return bool(chunk)


def _kill_and_reap(pidfds: list[int], candidate_pid: int) -> int | None:
    """End the tests process, then the candidate; the exit code of one that had ended by itself.

    Neither can have children, so nothing else is left. A negative code is a signal's number.
    """
    candidate_status: int | None = None
    ended, wait_status = os.waitpid(candidate_pid, os.WNOHANG)
    if ended:
        candidate_status = os.waitstatus_to_exitcode(wait_status)
    for pidfd in pidfds:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return candidate_status


def _keep_only(*descriptors: int) -> None:
    """Move these to 3, 4, 5 ... and close everything else above the standard three."""
    # Two steps, so that no target overwrites a source that is still needed.
    above = [_duplicate_above(descriptor) for descriptor in descriptors]
    for target, descriptor in enumerate(above, start=3):
        os.dup2(descriptor, target, inheritable=False)
    os.closerange(3 + len(descriptors), 65536)


def _duplicate_above(descriptor: int) -> int:
    """A duplicate that lies above every descriptor that a run uses."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 32)


def _socket_at(descriptor: int) -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def _warm_up(own_path: str) -> None:
    for name in _WARM_MODULES.split():
        importlib.import_module(name)
    sys.path.remove(own_path)


def _rehearse(jail: Jail) -> None:
    """Do once what every run does: what is set up on first use is then shared by all forks."""
    tree = alter_one(ast.parse("def check(candidate):\n    assert candidate(1) == (1, 2.0)\n"))
    compile(tree, "<rehearsal>", "exec")
    decode(encode(("call", "f", [[1, "a"], {2.5: None}], {}), lambda _: None), lambda _: None)
    process_filter(jail)


def main(arguments: str) -> None:
    """Entry point of the jailed interpreter.

    Args:
        arguments: JSON with ``jail``, ``memory_bytes``, ``own_path`` (the entry of ``sys.path`` that led
            here) and the descriptors ``control`` and ``client_pidfd``.
    """
    options = json.loads(arguments)
    control = _socket_at(options["control"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    jail = _JAILS[options["jail"]]()
    try:
        _warm_up(options["own_path"])
        jail.enter()
    except OSError as error:
        control.sendall(json.dumps({"refused": str(error)}).encode() + b"\n")
        return
    zygote = Zygote(jail, memory_bytes=options["memory_bytes"], client=options["client_pidfd"])
    _rehearse(jail)
    gc.collect()
    gc.freeze()
    control.sendall(json.dumps({"ready": True}).encode() + b"\n")
    zygote.serve(control)
