"""Warm interpreter in the jail: forks a candidate process per program, and examiner processes.

Started by `sandbox.client` as a fresh interpreter with a scrubbed environment. It never reads a
program or its tests, only passes descriptors on, so candidates cannot see each other. Candidate and
examiner are two processes connected by a socket.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from pipeline_lib.verification.sandbox.jail import kernel
from pipeline_lib.verification.sandbox.jail.candidate_process import serve_calls
from pipeline_lib.verification.sandbox.jail.cpu_affinity import PINNED_S, CpuAffinity
from pipeline_lib.verification.sandbox.jail.descriptors import keep_only, read_all, socket_at
from pipeline_lib.verification.sandbox.jail.examiner_process import MAX_RUNS, ExaminerProcess, Note
from pipeline_lib.verification.sandbox.jail.isolation import (
    Jail,
    LandlockJail,
    NamespaceJail,
    ProcessLimits,
    lock_down,
    prepare_filter,
)
from pipeline_lib.verification.sandbox.jail.limits import (
    MAX_OUTPUT_BYTES,
    CpuBudget,
    Watch,
    wall_seconds,
)
from pipeline_lib.verification.sandbox.jail.numpy_finder import permit_numpy
from pipeline_lib.verification.sandbox.jail.warm_up import warm_up
from pipeline_lib.verification.sandbox.protocol.channel import Channel, limit_waiting

_JAILS: dict[str, Callable[[Sequence[str]], Jail]] = {
    "namespace": NamespaceJail,
    "landlock": LandlockJail,
}
TESTS_EXTRA_BYTES = 512 << 20
"""Memory of the examiner beyond the candidate's limit, for values that the candidate returns."""
HARD_DEADLINE_GRACE_S = 1.0
EXIT_GRACE_S = 0.5
"""Time for a candidate to exit after it closed its channel."""
_REQUEST_BYTES = 4096
_WARM_MODULES = """
array bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq io
itertools json math operator random re statistics string textwrap typing
"""


class Job(NamedTuple):
    """Descriptors of one run, received from the client."""

    program: int
    """The candidate's source."""
    tests: int
    """Read by the examiner: an encoded `TestSuite`."""
    result: int
    """Written by the examiner: its result."""
    output: int
    """A file for what the program prints, which never enters the memory of this process."""
    stdin: int | None = None
    """The input of a program that is run as a process."""

    def close(self) -> None:
        """Close the descriptors in this process."""
        for descriptor in self:
            if descriptor is not None:
                os.close(descriptor)


class Zygote:
    """Serves runs in order until the client is gone.

    Args:
        jail: Isolation of the candidate process.
        memory_bytes: Address space of the candidate's process.
        client: A descriptor that becomes readable when the client is gone.
    """

    def __init__(self, jail: Jail, *, memory_bytes: int, client: int) -> None:
        self._jail = jail
        self._memory_bytes = memory_bytes
        self._client = client
        self._affinity = CpuAffinity()
        self._examiner: ExaminerProcess | None = None

    def serve(self, control: socket.socket) -> None:
        """Answer requests on ``control`` in turn."""
        while True:
            ready = select.select([control.fileno(), self._client], [], [])[0]
            if self._client in ready:
                return
            message, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 5)
            if not message:
                return
            report = self.run(Job(*descriptors), timeout_s=json.loads(message)["timeout_s"])
            if report is None:
                return
            control.sendall(json.dumps(report).encode() + b"\n")

    def run(self, job: Job, *, timeout_s: float) -> dict[str, Any] | None:
        """Run one program; None if the client is gone."""
        output, output_end = os.pipe()
        candidate_end, tests_end = socket.socketpair()
        limit_waiting(tests_end, wall_seconds(timeout_s))
        start = time.monotonic()
        deadline = start + wall_seconds(timeout_s)
        cpu_seconds = int(timeout_s) + 2
        with self._affinity.pinned():
            candidate_pid = self._jail.fork_candidate()
            if candidate_pid == 0:
                self._run_candidate(job, candidate_end.fileno(), output_end, cpu_seconds)
            candidate_end.close()
            os.close(output_end)
            examiner = self._examine(job, tests_end.fileno(), deadline, cpu_seconds)
        tests_end.close()
        watch = Watch(output, job.output, examiner=examiner.fileno(), client=self._client)
        end = watch.end_before(time.monotonic() + PINNED_S)
        if end is None:
            self._affinity.unpin(candidate_pid, examiner.pid)
            budget = CpuBudget(candidate_pid, cpu_seconds=timeout_s, start=start)
            end = budget.end(watch, HARD_DEADLINE_GRACE_S)
        candidate_status = self._end_processes(candidate_pid, examiner, watch, end)
        watch.drain()
        os.close(output)
        job.close()
        if end == "client_gone":
            return None
        return {
            "end": "output_limit" if watch.num_bytes > MAX_OUTPUT_BYTES else end,
            "candidate_status": candidate_status,
        }

    def _end_processes(
        self, candidate_pid: int, examiner: ExaminerProcess, watch: Watch, end: str
    ) -> int | None:
        """End the candidate, and the examiner unless reusable; the candidate's status."""
        has_ended = end == "exit"
        if end == "cpu_limit":
            os.kill(candidate_pid, signal.SIGKILL)
            has_ended = watch.end_before(time.monotonic() + HARD_DEADLINE_GRACE_S) == "exit"
        note = examiner.finish() if has_ended else Note.RETIRED
        if Note.CANDIDATE_GONE in note:
            _await_exit(candidate_pid)
        candidate_status = _kill_and_reap(candidate_pid)
        if Note.RETIRED in note:
            examiner.end()
            self._examiner = None
        return candidate_status

    def _examine(
        self, job: Job, candidate: int, deadline: float, cpu_seconds: int
    ) -> ExaminerProcess:
        """Start the tests, in the examiner of the previous run if it can be reused."""

        def started(examiner: ExaminerProcess) -> ExaminerProcess:
            examiner.start(
                candidate=candidate, tests=job.tests, result=job.result, deadline=deadline
            )
            return examiner

        if self._examiner is not None:
            self._affinity.pin(self._examiner.pid)
            try:
                return started(self._examiner)
            except OSError:
                # Only the kernel's OOM killer ends an idle examiner.
                self._examiner.end()
        limits = ProcessLimits(
            memory_bytes=self._memory_bytes + TESTS_EXTRA_BYTES,
            cpu_seconds=cpu_seconds * MAX_RUNS,
        )
        self._examiner = ExaminerProcess(self._jail, limits)
        return started(self._examiner)

    def _run_candidate(self, job: Job, end: int, output: int, cpu_seconds: int) -> NoReturn:
        try:
            os.setsid()
            kernel.die_with_parent()
            if job.stdin is not None:
                os.dup2(job.stdin, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            keep_only(end, job.program)
            source = read_all(4)
            os.close(4)
            self._jail.separate()
            limits = ProcessLimits(memory_bytes=self._memory_bytes, cpu_seconds=cpu_seconds)
            lock_down(self._jail, limits)
            serve_calls(source, Channel(3))
        finally:
            os._exit(1)


def _await_exit(pid: int) -> None:
    """Wait for a candidate that closed its channel to exit, so that its status is known."""
    pidfd = os.pidfd_open(pid)
    try:
        select.select([pidfd], [], [], EXIT_GRACE_S)
    finally:
        os.close(pidfd)


def _kill_and_reap(pid: int) -> int | None:
    """Kill and reap a candidate; its exit code if it had ended by itself (negative: a signal).

    A candidate cannot have children, so nothing else is left.
    """
    ended, wait_status = os.waitpid(pid, os.WNOHANG)
    if ended:
        return os.waitstatus_to_exitcode(wait_status)
    # Not reaped yet, so the pid cannot have been reused.
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _import_warm_modules(own_path: str) -> None:
    for name in _WARM_MODULES.split():
        importlib.import_module(name)
    sys.path.remove(own_path)


def main(arguments: str) -> None:
    """Entry point of the jailed interpreter.

    Args:
        arguments: JSON with ``jail``, ``memory_bytes``, ``own_path`` (the entry of ``sys.path``
            that led here), ``packages`` (folders of NumPy, which may be imported) and the descriptors ``control`` and ``client_pidfd``.
    """
    options = json.loads(arguments)
    control = socket_at(options["control"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    jail = _JAILS[options["jail"]](options["packages"])
    permit_numpy(options["packages"])
    try:
        _import_warm_modules(options["own_path"])
        jail.enter()
    except OSError as error:
        control.sendall(json.dumps({"refused": str(error)}).encode() + b"\n")
        return
    zygote = Zygote(jail, memory_bytes=options["memory_bytes"], client=options["client_pidfd"])
    warm_up()
    # In a PID namespace the candidate is process 1; other jails only replace the pid later.
    prepare_filter(1, may_write_files=jail.may_write_files)
    gc.collect()
    gc.freeze()
    control.sendall(json.dumps({"ready": True}).encode() + b"\n")
    zygote.serve(control)
