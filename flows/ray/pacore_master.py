"""The Ray cluster of PaCoRe's workers: its address, and its nodes as processes; without importing Ray.

A node and all that it has started end with the command that started it, however that ends.
"""

import os
import pathlib
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from flows.run.ray_address import LOOPBACK_ONLY, connection_problem
from flows.server.server import LOOPBACK, unused_port
from pipeline_lib.engines.known.engine import Launch
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.environment import environment

START_TIMEOUT_S = 120.0
_NO_PLACE = (OSError, UnicodeError)
"""Of an address that cannot be reached; UnicodeError: a label of the host is empty or longer than 63."""
_POLL_S = 0.2
_AUTH_MODE = "RAY_AUTH_MODE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """Address of a cluster's head node."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Master":
        """The address in ``HOST:PORT``. BadInputError: it is none."""
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise BadInputError(f"--master {text}: give HOST:PORT, as in {LOOPBACK}:6400")
        return cls(host=LOOPBACK if host == "localhost" else host, port=int(port))

    @property
    def address(self) -> str:
        """``HOST:PORT``."""
        return f"{self.host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """True if the host is this machine."""
        try:
            found = socket.gethostbyname(self.host)
        except _NO_PLACE:
            return False
        own = {one.address for addresses in psutil.net_if_addrs().values() for one in addresses}
        return found in own

    @property
    def variables(self) -> dict[str, str]:
        """Environment of Ray's processes, and of those that connect to them.

        With a token, since whoever can connect can run code.
        """
        loopback = LOOPBACK_ONLY if self.host == LOOPBACK else {}
        return {_AUTH_MODE: environment(_AUTH_MODE) or "token", **loopback}

    def use_variables(self) -> None:
        """Set them in this process; before the import of Ray, which reads them once."""
        os.environ.update(self.variables)

    def answers(self) -> bool:
        """True if the master listens there."""
        return connection_problem(self.host, self.port) is None

    def check(self) -> None:
        """Connect once: Ray retries for minutes. BadInputError: no process listens there."""
        if reason := connection_problem(self.host, self.port):
            raise BadInputError(
                f"--master {self.address}: no answer ({reason}); start "
                f"`reasonloop pacore master --port {self.port}` there"
            )


@contextmanager
def running_head(master: Master, *, log_folder: pathlib.Path) -> Iterator[EngineProcess]:
    """The head node at ``master``, for the block.

    Raises:
        BadInputError: the port is in use, or the host is no address of this machine.
        ReasonloopError: Ray does not start.
    """
    try:
        socket.create_server((master.host, master.port)).close()
    except _NO_PLACE as error:
        raise BadInputError(
            f"--host {master.host} --port {master.port}: {reason_of(error)}; choose another"
        ) from error
    options = (
        *("--head", f"--port={master.port}", "--include-dashboard=false"),
        # Of the server for Ray's clients, which cannot be left out and else has one port for all clusters.
        f"--ray-client-server-port={unused_port()}",
    )
    log = log_folder / "ray-head.log"
    with running_node(master, ip=master.host, log=log, options=options) as node:
        yield node


@contextmanager
def running_node(
    master: Master, *, ip: str | None, log: pathlib.Path, options: Sequence[str] = ()
) -> Iterator[EngineProcess]:
    """A node of this machine in the cluster of ``master``, for the block.

    Args:
        master: The head node.
        ip: Address of this machine; None: the one that reaches the master.
        log: Of the node.
        options: Of ``ray start``; empty: to join the cluster.

    Raises:
        ReasonloopError: Ray does not start.
    """
    command = (
        # Its folder is known to the process alone that removes it.
        *("/bin/sh", "-c", 'exec "$@" --temp-dir="$TMPDIR"', "sh"),
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
        *(options or (f"--address={master.address}",)),
        # No CPU: Ray would start a process for each.
        *("--num-cpus=0", "--no-monitor", "--include-log-monitor=false"),
        *("--disable-usage-stats", "--log-color=false"),
        *([f"--node-ip-address={ip}"] if ip else []),
    )
    node = EngineProcess("ray", Launch(command=command, environment=master.variables), log)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        # Once Ray has said so in its log: it listens before it can be used.
        while "Ray runtime started" not in node.output():
            if node.exit_code is not None:
                raise ReasonloopError(f"Ray does not start; it {node.exit_summary}")
            if time.monotonic() > deadline:
                raise ReasonloopError(
                    f"Ray has not started for {START_TIMEOUT_S:g} s: {node.log_tail()}"
                )
            time.sleep(_POLL_S)
        yield node
    finally:
        # At once: nothing is kept, and some of its processes wait long for others.
        node.kill()
