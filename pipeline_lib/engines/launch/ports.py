"""Leases of ports on 127.0.0.1, held for the life of an engine, restarts included.

A bind test alone leaves a gap: an engine needs seconds until it binds the port, and vLLM binds with
SO_REUSEPORT, so two of them on one port would *share* it and receive each other's requests. A lease
keeps other runs of this project off the port; `listening_pids` finds any other process on it.
"""

import socket
from dataclasses import dataclass

import psutil

from pipeline_lib.engines.known.engine import HOST
from pipeline_lib.errors import ReasonloopError

_PORTS_TRIED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLease:
    """A port reserved against other runs until it is released, or this process ends."""

    port: int
    _holder: socket.socket

    def release(self) -> None:
        """Release the port; idempotent."""
        self._holder.close()


def lease_port(first: int) -> PortLease:
    """Lease the first free port from ``first`` on.

    Raises:
        ReasonloopError: the next 200 ports are all in use.
    """
    end = min(first + _PORTS_TRIED, 65536)
    for port in range(first, end):
        holder = _acquire(port)
        if holder is None:
            continue
        if is_free(port):
            return PortLease(port=port, _holder=holder)
        holder.close()
    raise ReasonloopError(
        f"ports {first} to {end - 1} of {HOST} are all in use; set serve.port to a free one"
    )


def _acquire(port: int) -> socket.socket | None:
    # Linux's abstract namespace: the kernel frees the name with the process, without files in /tmp.
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0reasonloop/engine-port/{port}")
    except OSError:
        holder.close()
        return None
    return holder


def is_free(port: int) -> bool:
    """True if a server could bind the port now."""
    with socket.socket() as probe:
        # As servers do: recently closed connections do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def listening_pids(port: int) -> frozenset[int | None]:
    """Ids of the processes that listen on the port; None for a process of another user."""
    return frozenset(
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,)
    )
