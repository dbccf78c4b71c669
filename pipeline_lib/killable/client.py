"""The client's side: it sends messages and kills.

It sets no signal handlers, so it works in any thread and in Ray workers.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.killable.program import HEADER, MAX_CONTROL_BYTES, READY
from pipeline_lib.params.environment import whole_environment

START_TIMEOUT_S = 600.0
"""Imports of a gigabyte of packages take minutes on a busy machine."""
RECYCLE_AFTER = 2000
"""Messages per process; caches of its libraries only grow."""
MAX_RESTARTS = 5
"""Failed starts in a row, above which an error is raised."""
_MAX_REPLY_BYTES = 1 << 28
_ATTEMPTS = 2
"""Of a message whose process dies."""
_ROOT = pathlib.Path(__file__).parents[2]
_LAUNCH = (
    "import importlib, sys; sys.path.append(root := sys.argv.pop(1)); "
    "program = importlib.import_module(sys.argv.pop(1)); sys.path.remove(root); program.main()"
)
"""For an interpreter that does not find this package: its folder may hold all packages of this environment."""


class Lost(Enum):
    """Why there is no reply; the process is not used again."""

    TIMEOUT = "it reached its deadline"
    CRASHED = "its process died"


class Forker:
    """The process that has imported what workers need, and forks them; started when it is needed. Thread-safe.

    ``program`` is a module that calls `program.serve`, ``argument`` its second argument, as JSON. Without
    ``environment`` it has the one of this process, and ``on_output`` takes each line that it or a worker prints.
    ``python`` is the interpreter of another environment, of whose packages it has those alone.
    """

    def __init__(  # noqa: PLR0913 - a process has many settings
        self,
        program: str,
        argument: Any,
        *,
        what: str,
        environment: Mapping[str, str] | None = None,
        python: pathlib.Path | None = None,
        folder: pathlib.Path | None = None,
        on_output: Callable[[str], None] | None = None,
    ) -> None:
        self._program, self._argument, self._what = program, json.dumps(argument), what
        self._environment = whole_environment() if environment is None else environment
        self._python, self._folder, self._on_output = python, folder, on_output
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self) -> tuple[socket.socket, int]:
        """Socket and pid of a new worker.

        Raises:
            BadInputError: the program says why it cannot serve.
            ReasonloopError: it cannot be started.
        """
        with self._lock:
            for _ in range(1 + MAX_RESTARTS):
                try:
                    if self._process is None:
                        self._start()
                    return self._fork()
                except OSError:
                    self._end()
        raise ReasonloopError(
            f"{self._what} died {1 + MAX_RESTARTS} times; is memory short? "
            f"`{sys.executable} -m {self._program} 0 '{self._argument}'` shows whether it can start"
        )

    def kill(self, pid: int) -> None:
        """Kill a worker, and what it has started."""
        with self._lock, contextlib.suppress(OSError):
            self._control.send(str(pid).encode())

    def close(self) -> None:
        """End the process and with it all that it forked."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._control, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(os.path.abspath(path or ".") for path in sys.path)  # noqa: PTH100 - as text
        flags = ["-u", "-W", "ignore"]
        command, variables = [sys.executable, *flags, "-m"], {"PYTHONPATH": path}
        if self._python is not None:
            command = [str(self._python), *flags, "-P", "-c", _LAUNCH, str(_ROOT)]
            # Rows of a data set may depend on the order of a set of Python.
            variables = {"PYTHONPATH": "", "PYTHONHASHSEED": "0"}
        output = subprocess.DEVNULL if self._on_output is None else subprocess.PIPE
        with remote:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed module
                [*command, self._program, str(remote.fileno()), self._argument],
                env={**self._environment, **variables},
                cwd=self._folder,
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL if self._on_output is None else subprocess.STDOUT,
                start_new_session=True,
            )
        if self._process.stdout is not None:
            threading.Thread(target=self._read_output, args=[self._process], daemon=True).start()
        self._control.settimeout(START_TIMEOUT_S)
        said = self._receive()
        if said != READY:
            self._end()
            raise BadInputError(said.decode(errors="replace"))

    def _read_output(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert self._on_output is not None
        with process.stdout as stream:
            for line in iter(lambda: stream.readline(_MAX_LINE_BYTES), b""):
                self._on_output(line.decode(errors="replace").rstrip("\n"))

    def _fork(self) -> tuple[socket.socket, int]:
        local, remote = socket.socketpair()
        try:
            with remote:
                socket.send_fds(self._control, [b"fork"], [remote.fileno()])
            return local, int(self._receive())
        except OSError:
            local.close()
            raise

    def _receive(self) -> bytes:
        data = self._control.recv(MAX_CONTROL_BYTES)
        if not data:
            raise ConnectionResetError
        return data

    def _end(self) -> None:
        if self._process is None:
            return
        self._control.close()
        try:
            self._process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


_MAX_LINE_BYTES = 1 << 16


class Reply(NamedTuple):
    """What a worker replied, or why nothing, after so many seconds."""

    data: bytes | Lost
    seconds: float


class Worker:
    """A worker of a forker; its process is replaced when it is lost or worn."""

    def __init__(self, forker: Forker) -> None:
        self._forker = forker
        self._socket: socket.socket | None = None
        self.pid = 0
        self.num_answered = 0

    def ask(self, message: bytes, *, cpu_s: float, wall_s: float) -> Reply:
        """The reply to a message within CPU seconds of the worker and seconds; errors as of `Forker.fork`."""
        start_s = time.perf_counter()
        reply: bytes | Lost = Lost.CRASHED
        for _ in range(_ATTEMPTS):
            if self._socket is None:
                self._socket, self.pid = self._forker.fork()
                self.num_answered = 0
            with contextlib.suppress(OSError):
                reply = self._reply(self._socket, message, cpu_s, wall_s)
            self.num_answered += 1
            if isinstance(reply, Lost) or self.num_answered >= RECYCLE_AFTER:
                self.close()
            if reply is not Lost.CRASHED:
                break
        return Reply(reply, time.perf_counter() - start_s)

    def close(self) -> None:
        """Kill its process."""
        if self._socket is not None:
            self._socket.close()
            self._forker.kill(self.pid)
            self._socket = None

    def _reply(
        self, process: socket.socket, message: bytes, cpu_s: float, wall_s: float
    ) -> bytes | Lost:
        start_s, cpu_at_start_s = time.perf_counter(), self._cpu_seconds()
        process.settimeout(wall_s)
        process.sendall(HEADER.pack(len(message)) + message)
        data, size = bytearray(), _MAX_REPLY_BYTES
        while len(data) < size:
            # The earliest time at which it can have used up its CPU time.
            cpu_left_s = cpu_s - (self._cpu_seconds() - cpu_at_start_s)
            left_s = min(cpu_left_s, start_s + wall_s - time.perf_counter())
            if left_s <= 0:
                return Lost.TIMEOUT
            process.settimeout(left_s)
            with contextlib.suppress(TimeoutError):
                part = process.recv(MAX_CONTROL_BYTES)
                data += part
                if not part:
                    return Lost.CRASHED
            if size == _MAX_REPLY_BYTES and len(data) >= HEADER.size:
                size = HEADER.size + HEADER.unpack_from(data)[0]
                if size > _MAX_REPLY_BYTES:
                    return Lost.CRASHED
        return bytes(data[HEADER.size :])

    def _cpu_seconds(self) -> float:
        """CPU time of the process since its fork; 0 if it is gone."""
        with contextlib.suppress(OSError):
            # The clock of another process, as clock_getcpuclockid(3) computes it.
            return time.clock_gettime(~self.pid << 3 | 2)
        return 0.0
