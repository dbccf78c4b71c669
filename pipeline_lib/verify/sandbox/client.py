"""Client of a jailed interpreter: starts it, sends programs, restarts it after a crash.

Processes: this client starts the outer process of a jail, which starts the warm interpreter
(`jail.zygote`). Per run the interpreter forks a candidate, which runs the program, and an examiner,
which runs the tests. Replies are never executed or unpickled. Killing the outer process ends the
jail; it also ends when this process does.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.sandbox.examiner.session import GONE
from pipeline_lib.verify.sandbox.jail.isolation import MESSAGE_BYTES, wall_seconds

PACKAGE_ROOT = pathlib.Path(__file__).parents[3]
_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from pipeline_lib.verify.sandbox.jail.zygote import main; main()"
)
# Not -I: it ignores PYTHONHASHSEED, without which the order of a set, and with it an occasional
# verdict, would differ between runs. The environment is set below, so -E is not needed.
INTERPRETER_FLAGS = ("-s", "-S", "-P")
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "PATH": ""}
_START_TIMEOUT_S = 20.0
_LIBRARY_TIMEOUT_S = 600.0
"""Some data sets are made in tens of seconds."""
_ANSWER_GRACE_S = 10.0
_CLOSE_TIMEOUT_S = 2.0
_ATTEMPTS = 2
_KEPT_OUTPUT_BYTES = 64 << 10
DIED = "the sandbox itself died"
EXITED = "the candidate exited with 0"


class JailRefusedError(ReasonloopError):
    """The kernel or the container does not permit this jail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSuite:
    """The tests of one program."""

    __test__ = False  # not pytest's

    entry_point: str = ""
    tests: str = ""
    stdin: str | None = None
    """The program is run as a process with this input, instead of tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Outcome of one program."""

    status: Status
    detail: str
    output: str
    """The first 64 KiB of what the program printed; all of it if it was run as a process."""
    seconds: float
    is_conclusive: bool = True
    """False if the wall-clock limit was reached before the CPU limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Packages of another environment, for all programs of a jail."""

    python: pathlib.Path
    folder: pathlib.Path
    warm: Sequence[tuple[str, ...]]
    """Modules that are imported before the jail is entered, with arguments for a call of its ``warm`` if it has any."""


class JailedInterpreter:
    """One warm interpreter in one jail; runs are serialized, from any thread.

    ``jail`` is ``namespace``, ``landlock``, or ``container`` in a container of its own. A program has
    ``timeout_s`` CPU seconds, and its process ``memory_bytes`` of address space. JailRefusedError: the
    jail cannot be entered here, or the ``library`` not imported.
    """

    def __init__(
        self, jail: str, *, timeout_s: float, memory_bytes: int, library: Library | None = None
    ) -> None:
        self.tier = jail
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._library = library
        self._lock = threading.Lock()
        self._start()

    def run(self, program: str, suite: TestSuite) -> RunReport:
        """Run one program; never raises for what the program does."""
        start = time.perf_counter()
        report: dict[str, Any] = {}
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    if self._process.returncode is not None:  # set by `_stop` alone
                        self._start()
                    report = self._run_once(program, suite)
                    break
                except (OSError, JailRefusedError):
                    self._stop()
        status, detail = _status_of(report)
        return RunReport(
            status=status,
            detail=detail,
            output=report.get("output", ""),
            seconds=time.perf_counter() - start,
            is_conclusive=status is not Status.TIMEOUT or report["end"] == "cpu_limit",
        )

    def close(self) -> None:
        """End the interpreter and everything in its jail. Safe to call twice."""
        with self._lock:
            self._control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSE_TIMEOUT_S)
            self._stop()

    @property
    def pid(self) -> int:
        """Process id of the jail's outer process."""
        return self._process.pid

    def _start(self) -> None:
        self._control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own_pidfd = os.pidfd_open(os.getpid())
        library = self._library
        options = {
            "jail": self.tier,
            "memory_bytes": self._memory_bytes,
            "packages": [str(library.folder)] if library else numpy_folders(),
            "warm": library.warm if library else (),
            "control": remote.fileno(),
            "client_pidfd": own_pidfd,
        }
        python = library.python if library else pathlib.Path(sys.executable)
        interpreter = str(python.resolve())
        command = [interpreter, *INTERPRETER_FLAGS, "-c", _LAUNCH, str(PACKAGE_ROOT)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - fixed interpreter and module
                [*command, json.dumps(options)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(remote.fileno(), own_pidfd),
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(own_pidfd)
            remote.close()
        try:
            answer = self._receive(_LIBRARY_TIMEOUT_S if library else _START_TIMEOUT_S)
        except OSError as error:
            self._stop()
            raise JailRefusedError("the interpreter did not start") from error
        if "refused" in answer:
            self._stop()
            raise JailRefusedError(answer["refused"])

    def _stop(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _run_once(self, program: str, suite: TestSuite) -> dict[str, Any]:
        """The report of one run; OSError: the interpreter died, or did not reply in time."""
        is_process = suite.stdin is not None
        tests = {"entry_point": suite.entry_point, "tests": suite.tests, "as_process": is_process}
        contents = [_encoded(program), json.dumps(tests).encode(), b"", b""]
        if suite.stdin is not None:
            contents.append(_encoded(suite.stdin))
        request = json.dumps({"timeout_s": self._timeout_s}).encode()
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(_memory_file(content)) for content in contents]
            socket.send_fds(self._control, [request], [file.fileno() for file in files])
            report = self._receive(wall_seconds(self._timeout_s) + _ANSWER_GRACE_S)
            _, _, result, output, *_ = files
            for file in (result, output):
                file.seek(0)
            report["result"] = result.read()
            kept = output.read(_KEPT_OUTPUT_BYTES if suite.stdin is None else -1)
            report["output"] = kept.decode("utf-8", "replace")
        return report

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        self._control.settimeout(timeout_s)
        message = self._control.recv(MESSAGE_BYTES)
        if not message:
            raise ConnectionResetError
        received: dict[str, Any] = json.loads(message)
        return received


def numpy_folders() -> list[str]:
    """NumPy and the libraries beside it, if it is installed."""
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        return []
    folder = pathlib.Path(spec.origin).resolve().parent
    return [str(one) for one in (folder, folder.with_name("numpy.libs")) if one.is_dir()]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _memory_file(content: bytes) -> BinaryIO:
    file = os.fdopen(os.memfd_create("run"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def _status_of(report: dict[str, Any]) -> tuple[Status, str]:
    match report:
        case {"end": "cpu_limit"}:
            return Status.TIMEOUT, "its CPU seconds ran out"
        case {"end": "deadline"}:
            return Status.TIMEOUT, "the clock ran out before its CPU seconds did"
        case {"end": "output_limit"}:
            return Status.OUTPUT_LIMIT, "printed more than 1 MiB"
        case {"end": "exit", "result": bytes(content)} if content:
            result = json.loads(content)
            is_gone = result["detail"] == GONE
            exit_code = report["candidate_status"]
            detail = _describe_exit(exit_code) if is_gone else result["detail"]
            return Status(result["status"]), detail
        case {"end": "exit"}:
            return Status.VERIFIER_ERROR, "the tests process died"
        case _:
            return Status.VERIFIER_ERROR, DIED


def _describe_exit(code: int | None) -> str:
    """The exit of a candidate that ended before its tests did."""
    if code is None:
        return GONE
    if code == 0:
        return EXITED
    if code < 0:
        return f"the candidate died of {signal.Signals(-code).name}"
    return f"the candidate exited with {code}"
