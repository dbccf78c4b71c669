"""Runs Python in forks of one process that has imported the command: a new process takes 2 to 5 CPU seconds."""

import gc
import importlib
import json
import os
import pathlib
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

from benchmarks.lib.repository import REPOSITORY

MAIN = "flows.cli.__main__"
MODEL = "transformers.models.llama.modeling_llama"
"""Loaded by name, so that no import of the product leads to it."""
START_TIMEOUT_S = 120.0
MESSAGE_BYTES = 1 << 17


class ForkServer:
    """A process with the modules of the command, which runs Python in a fork for each call.

    Any process can use the server of a folder.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._address = folder / "socket"
        self._pid_file = folder / "pid"

    @property
    def is_running(self) -> bool:
        return self._address.exists()

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the process; it outlives this one. It answers once it has imported everything."""
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self._address)],
            cwd=REPOSITORY,
            env={**environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._pid_file.write_text(str(process.pid))
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._address.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.returncode = 0  # it goes on: `stop` ends it

    def stop(self) -> None:
        """End the process."""
        os.kill(int(self._pid_file.read_text()), signal.SIGKILL)
        self._address.unlink()

    def python(
        self,
        arguments: Sequence[str],
        *,
        stdout: IO[bytes],
        stderr: IO[bytes],
        environment: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> "Forked":
        """`python ARGUMENTS`, which begin with -m or -c, with no input and with changed variables."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(self._address))
        request = json.dumps([[*arguments], {**(environment or {})}, start_new_session])
        socket.send_fds(connection, [request.encode()], [stdout.fileno(), stderr.fileno()])
        return Forked(connection)

    def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS` with its exit code and its output.

        Raises:
            TimeoutError: it did not end in time, and was killed.
        """
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            process = self.python(arguments, stdout=stdout, stderr=stderr, environment=environment)
            try:
                code = process.wait(timeout_s)
            except TimeoutError:
                process.kill()
                raise
            texts = []
            for output in (stdout, stderr):
                output.seek(0)
                texts.append(output.read().decode())
        return subprocess.CompletedProcess(arguments, code, *texts)


class Forked:
    """A process that `ForkServer` has started, as a `subprocess.Popen`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.returncode: int | None = None
        self.pid = int(connection.recv(MESSAGE_BYTES))

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or the negative number of the signal that ended it.

        Raises:
            TimeoutError: it runs for longer than ``timeout`` seconds.
        """
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._connection.recv(MESSAGE_BYTES))
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        try:
            return self.wait(0)
        except BlockingIOError:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)
        self.wait()


def import_all() -> None:
    """Import every module of the command, and what it loads by name."""
    for package in map(importlib.import_module, ("flows", "tasks")):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name != MAIN:
                importlib.import_module(found.name)
    importlib.import_module(MODEL)


def serve(address: str) -> None:
    """Take one request from each connection; answer with the process id, then with its exit code."""
    import_all()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.new")
    listener.listen()
    pathlib.Path(f"{address}.new").rename(address)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return answer(connection)
        connection.close()


def answer(connection: socket.socket) -> None:
    """In a fork of the server: run the request in a fork of its own."""
    request, outputs, *_ = socket.recv_fds(connection, MESSAGE_BYTES, 2)
    arguments, environment, start_new_session = json.loads(request)
    if (pid := os.fork()) == 0:
        connection.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for descriptor, output in enumerate(outputs, start=1):
            os.dup2(output, descriptor)
            os.close(output)
        if start_new_session:
            os.setsid()
        # A shell starts background processes with SIGINT ignored, and children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.update(environment)
        return python(arguments)
    for output in outputs:
        os.close(output)
    connection.send(str(pid).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.send(str(code).encode())
    os._exit(0)


def python(arguments: list[str]) -> None:
    """What the interpreter does with ``arguments``."""
    option, what, *rest = arguments
    sys.argv = [what if option == "-m" else option, *rest]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    serve(sys.argv[1])
