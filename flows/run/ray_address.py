"""The address of a running Ray cluster, checked without Ray."""

import os
import socket
from collections.abc import Mapping

from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import ExecutionParams

LOOPBACK_ONLY: Mapping[str, str] = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray takes 127.0.0.1 for the address of the network, and listens on all of them, unless clusters of several
machines are off by this variable that it has for other systems. It is read at the import of Ray."""
_VARIABLE = "RAY_ADDRESS"
_CONNECT_S = 10.0


def keep_ray_on_loopback() -> None:
    """A Ray that this process starts listens on `LOOPBACK` alone; to be called before Ray is imported."""
    os.environ.update(LOOPBACK_ONLY)


def ray_address(execution: ExecutionParams) -> str | None:
    """Address of the cluster that ``execution`` or the environment names; None: one on this machine."""
    return execution.ray_address or environment(_VARIABLE) or None


def ray_place(execution: ExecutionParams) -> str:
    """The cluster in messages: the setting with its address."""
    if execution.ray_address:
        return f"execution.ray_address={execution.ray_address}"
    found = environment(_VARIABLE)
    return f"{_VARIABLE}={found}" if found else "on this machine"


def check_ray_address(execution: ExecutionParams) -> None:
    """Connect to the cluster, if one is named: Ray retries for a minute, with a line each time.

    Raises:
        ReasonloopError: no process listens there.
    """
    address = ray_address(execution) or ""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():  # as in "auto"
        return
    if reason := connection_problem(host, int(port)):
        raise ReasonloopError(
            f"{ray_place(execution)}: no answer ({reason}); start that cluster, "
            "or unset it to have one on this machine"
        )


def connection_problem(host: str, port: int) -> str | None:
    """Why no process listens there; None: one does."""
    if port >= 1 << 16:  # the resolver would take it modulo 65,536
        return "ports end at 65535"
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except (OSError, UnicodeError) as error:
        return reason_of(error)
    return None
