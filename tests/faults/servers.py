"""A Prefect server on a fixed port that is killed and started again with the same database."""

import os
import pathlib
import socket
import subprocess
import sys
import time

from benchmarks.lib.repository import REPOSITORY
from flows.server.server import QUIET_ENVIRONMENT, answers

START_S = 120.0


class OwnServer:
    """The server program in a process of its own, as on another machine: the command did not start it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self._port = listener.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/api"

    @property
    def database(self) -> pathlib.Path:
        return self._folder / "prefect" / "prefect.db"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        home = {"PREFECT_HOME": str(self._folder / "prefect")}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "flows.server.prefect_server",
                    str(self._port),
                    str(self._folder),
                ],
                cwd=REPOSITORY,
                env={**os.environ, **QUIET_ENVIRONMENT, **home},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_S
        while not answers(self.api_url):
            assert self._process.poll() is None, "the server has ended"
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
