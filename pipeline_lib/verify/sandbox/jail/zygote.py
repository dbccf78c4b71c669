"""Warm interpreter in the jail: forks a candidate process per program, and examiner processes.

Started by `sandbox.client` as a fresh interpreter with a scrubbed environment. It never reads a
program or its tests, only passes descriptors on, so candidates cannot see each other. Candidate and
examiner are two processes connected by a socket.

A forked child copies every page that it writes to. After the warm-up, bytecode is specialized and
caches are filled, so children only read these pages.
"""

import contextlib
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner.examine import examine
from pipeline_lib.verify.sandbox.jail import kernel
from pipeline_lib.verify.sandbox.jail.candidate_process import MODULE, CandidateServer, serve_calls
from pipeline_lib.verify.sandbox.jail.isolation import (
    JAILS,
    MESSAGE_BYTES,
    Jail,
    Watch,
    lock_down,
    process_filter,
)
from pipeline_lib.verify.sandbox.protocol import Channel

_WARM_MODULES = """
array bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq io
itertools json math operator random re statistics string textwrap typing
"""
_MAX_REASON = 1000
_ROUNDS = 40
"""Python 3.11 specializes an instruction after 8 executions, with a few back-offs."""
_PROGRAM = b"""
from typing import Any, Dict, List, Optional, Set, Tuple, Union
import math

def rehearsed(values: List[int], name: str = "", *, pairs: Optional[Dict[str, int]] = None) -> Any:
    kinds: Tuple[List[str], List[float], Tuple[int, int], Union[int, str]] = None
    seen = set(values)
    for index, value in enumerate(sorted(values)):
        if value % 2 == 0 and value not in (7, 8):
            seen.add(math.floor(value / 2) + index)
    return [str(value) for value in range(len(values)) if value], (len(seen), 2.5, None), name
"""
_TESTS = """
def check(candidate):
    assert candidate([]) == ([], (0, 2.5, None), "")
    assert candidate([1, 2, 3], "a") == (["1", "2"], (3, 2.5, None), "a"), "message"
    assert abs(candidate([4])[1][1] - 2.5) < 1e-6
"""


class _NumpyFinder:
    """Finds NumPy in a jail, where no folder with other packages is on the path."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "numpy":
            return None
        file, folders = f"{self._folder}/__init__.py", [self._folder]
        return importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=folders
        )


def import_warm_modules(packages: Sequence[str], warm: Sequence[Sequence[Any]] = ()) -> None:
    """Import what most programs use, and let them import NumPy if its folder is among ``packages``.

    A process imports NumPy after its fork, so programs do not share what they change of it. What is imported by ``warm``,
    of a whole environment, is shared.
    """
    for name in _WARM_MODULES.split():
        importlib.import_module(name)
    # A thread of BLAS would be refused, and its memory counts.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    folders = [folder for folder in packages if folder.endswith("numpy")]
    sys.meta_path.extend(map(_NumpyFinder, folders))
    sys.path += [folder for folder in packages if folder.endswith("site-packages")]
    for name, *arguments in warm:
        module = importlib.import_module(name)
        if arguments:
            module.warm(*arguments)


class _Loopback(Channel):
    """A channel to a candidate in the same process."""

    def __init__(self, candidate: CandidateServer) -> None:
        self._candidate = candidate
        self._answer = b""

    def send(self, frame: bytes) -> None:  # type: ignore[explicit-override]
        self._answer = self._candidate.answer(frame)

    def receive(self) -> bytes:  # type: ignore[explicit-override]
        return self._answer


def warm_up() -> None:
    """Judge a sample program in this process, ``_ROUNDS`` times."""
    for _ in range(_ROUNDS):
        examine(_Loopback(CandidateServer(_PROGRAM)), entry_point="rehearsed", tests=_TESTS)
    del sys.modules[MODULE]


TESTS_EXTRA_BYTES = 512 << 20
"""Memory of the examiner beyond the candidate's limit, for values that the candidate returns."""
EXIT_GRACE_S = 0.5
"""Time for a candidate to exit after the end of its channel."""
PINNED_S = 0.1
"""Candidate and examiner share a CPU for so long: on two CPUs each call would wake an idle one,
which costs more than most calls. A longer run is mostly computing and may use any CPU."""
MAX_RUNS = 100
"""Runs of an examiner until its replacement in any case, because memory fragments."""
_REUSABLE, _SPENT = b"r", b"s"
"""Its message at the end of a run."""


class ExaminerProcess:
    """Handle of a process that runs the tests of one candidate after another.

    It outlives candidates because a fork costs more than most tests. Only plain values and trusted
    tests can change its state; it retires after a run that may have left state behind. Its CPU
    limit is the limit of one run times their number.
    """

    def __init__(self, jail: Jail, memory_bytes: int, cpu_seconds: int) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                lock_down(jail, [theirs.fileno()], memory_bytes, cpu_seconds * MAX_RUNS)
                _serve(socket.socket(fileno=3))
            finally:
                os._exit(0)
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


class Zygote:
    """Serves runs in order until the descriptor ``client`` is readable: the client is gone."""

    def __init__(self, jail: Jail, *, memory_bytes: int, client: int) -> None:
        self._jail = jail
        self._memory_bytes = memory_bytes
        self._client = client
        self._all_cpus = os.sched_getaffinity(0)
        self._examiner: ExaminerProcess | None = None

    def serve(self, control: socket.socket) -> None:
        """Answer requests on ``control`` in turn.

        The descriptors of a request are the program; the tests, as JSON; a file for
        the examiner's result; one for what the program prints; and its input if it is run as a
        process. Their contents never enter the memory of this process.
        """
        while True:
            ready = select.select([control.fileno(), self._client], [], [])[0]
            if self._client in ready:
                return
            message, descriptors, *_ = socket.recv_fds(control, MESSAGE_BYTES, 5)
            if not message:
                return
            report = self._run(descriptors, timeout_s=json.loads(message)["timeout_s"])
            if report is None:
                return
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(json.dumps(report).encode())

    def _run(self, descriptors: Sequence[int], *, timeout_s: float) -> dict[str, Any] | None:
        """Run one program; None if the client is gone."""
        output, output_end = os.pipe()
        candidate_end, tests_end = socket.socketpair()
        cpu_seconds = int(timeout_s) + 2
        _move(0, {kernel.current_cpu()})
        pid = self._jail.fork_candidate()
        if pid == 0:
            self._run_candidate(descriptors, candidate_end.fileno(), output_end, cpu_seconds)
        candidate_end.close()
        os.close(output_end)
        _, tests, result, kept, *_ = descriptors
        examiner = self._examine([tests_end.fileno(), tests, result], cpu_seconds)
        tests_end.close()
        _move(0, self._all_cpus)
        watch = Watch(
            pid,
            timeout_s,
            output=output,
            kept=kept,
            examiner=examiner.fileno(),
            client=self._client,
        )
        end = watch.end_within(PINNED_S)
        if end is None:
            _move(pid, self._all_cpus)
            _move(examiner.pid, self._all_cpus)
            end = watch.end()
        if end != "exit" or not examiner.is_reusable():
            examiner.end()
            self._examiner = None
        status = _reap(pid, patience_s=EXIT_GRACE_S if end == "exit" else 0)
        if watch.printed_too_much() and end != "client_gone":
            end = "output_limit"
        os.close(output)
        return None if end == "client_gone" else {"end": end, "candidate_status": status}

    def _examine(self, descriptors: Sequence[int], cpu_seconds: int) -> ExaminerProcess:
        """Start the tests, in the examiner of the previous run if there is one."""
        if self._examiner is not None:
            _move(self._examiner.pid, {kernel.current_cpu()})
            try:
                self._examiner.start(descriptors)
            except OSError:
                # Only the kernel's OOM killer ends an idle examiner.
                self._examiner.end()
                self._examiner = None
        if self._examiner is None:
            memory_bytes = self._memory_bytes + TESTS_EXTRA_BYTES
            self._examiner = ExaminerProcess(self._jail, memory_bytes, cpu_seconds)
            self._examiner.start(descriptors)
        return self._examiner

    def _run_candidate(
        self, descriptors: Sequence[int], channel: int, output: int, cpu_seconds: int
    ) -> NoReturn:
        program, _, _, _, *stdin = descriptors
        try:
            if stdin:
                os.dup2(stdin[0], 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            source = os.pread(program, os.fstat(program).st_size, 0)
            self._jail.separate()
            lock_down(self._jail, [channel], self._memory_bytes, cpu_seconds)
            serve_calls(source, Channel(3))
        finally:
            os._exit(1)


def _move(pid: int, cpus: Collection[int]) -> None:
    # A container may forbid it, or the process may have ended: this costs only time.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(pid, cpus)


def _reap(pid: int, *, patience_s: float) -> int | None:
    """Exit code of a candidate if it ends in time (negative: a signal); else it is killed.

    A candidate cannot have children, so nothing else is left.
    """
    pidfd = os.pidfd_open(pid)
    has_ended = bool(select.select([pidfd], [], [], patience_s)[0])
    os.close(pidfd)
    if not has_ended:
        # Not reaped yet, so the pid cannot have been reused.
        os.kill(pid, signal.SIGKILL)
    _, wait_status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(wait_status) if has_ended else None


def main() -> None:
    """Entry point of the jailed interpreter.

    Its arguments are the entry of ``sys.path`` that led here, and JSON with ``jail``,
    ``memory_bytes``, ``packages`` (folders of NumPy, which may be imported, or of an environment), ``warm`` and the
    descriptors ``control`` and ``client_pidfd``.
    """
    _, own_path, arguments = sys.argv
    options = json.loads(arguments)
    control = socket.socket(fileno=options["control"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    try:
        jail = JAILS[options["jail"]](options["packages"])
        import_warm_modules(options["packages"], options["warm"])
        sys.path.remove(own_path)
        jail.enter()
    except Exception as error:  # noqa: BLE001 - of the kernel, or of a library
        control.send(json.dumps({"refused": (str(error) or repr(error))[:_MAX_REASON]}).encode())
        return
    zygote = Zygote(jail, memory_bytes=options["memory_bytes"], client=options["client_pidfd"])
    warm_up()
    # In a PID namespace the candidate is process 1; other jails only replace the pid later.
    process_filter(jail, own_pid=1)
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"ready": True}).encode())
    zygote.serve(control)
