"""A Ray cluster that runs already: one node, started as an operator does."""

import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping

import psutil

from tests.faults.processes import MARK, marked, wait_until_gone

_START_S = 180.0
_NODE = (
    *("--node-ip-address=127.0.0.1", "--num-cpus=2"),
    *("--include-dashboard=false", "--disable-usage-stats"),
)


class RunningCluster:
    """A head node on the loopback address."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Short: the paths of Ray's sockets are limited to 107 bytes.
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="ray-"))
        self._mark = uuid.uuid4().hex
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        try:
            subprocess.run(
                [
                    *(pathlib.Path(sys.executable).with_name("ray"), "start", "--head"),
                    *(f"--port={port}", f"--temp-dir={self._folder}", *_NODE),
                ],
                # A token that an earlier Ray has left in the home folder would be asked for.
                env={**environment, MARK: self._mark, "RAY_AUTH_MODE": "disabled"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_START_S,
                check=True,
            )
        except BaseException:
            self.end()
            raise

    def processes(self) -> list[psutil.Process]:
        """The processes of the node, its workers included."""
        return marked(self._mark)

    def end(self) -> None:
        """SIGKILL for all, as when the machine loses its power."""
        for process in self.processes():
            process.kill()
        wait_until_gone(self._mark, timeout_s=30)
        shutil.rmtree(self._folder, ignore_errors=True)
