"""Ports on 127.0.0.1: one for an engine of ours, kept for as long as the engine is wanted.

A bind test alone leaves a gap: an engine needs seconds until it binds the port itself, and vLLM
binds with SO_REUSEPORT, so that two of them that chose the same port would *share* it and answer
each other's requests. So a port is leased: no other run of ours takes it, even while its engine is
being started again. Against strangers there is `listening_processes`.
"""

import socket
from dataclasses import dataclass

import psutil

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.serving.engines.engine import HOST

_PORTS_TRIED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLease:
    """A port that no other run of ours chooses until it is released, or this process ends."""

    port: int
    _holder: socket.socket

    def release(self) -> None:
        """Give the port back; a second time does nothing."""
        self._holder.close()


def lease_port(first: int) -> PortLease:
    """Lease the first port from ``first`` on that is free.

    Raises:
        ReasonloopError: all ports that were tried are in use.
    """
    end = min(first + _PORTS_TRIED, 65536)
    for port in range(first, end):
        holder = _hold(port)
        if holder is None:
            continue
        if is_free(port):
            return PortLease(port=port, _holder=holder)
        holder.close()
    raise ReasonloopError(
        f"ports {first} to {end - 1} of {HOST} are all in use; set serve.port to a free one"
    )


def _hold(port: int) -> socket.socket | None:
    # A name in Linux's abstract namespace: the kernel frees it with its holder, whoever owns /tmp.
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0reasonloop/engine-port/{port}")
    except OSError:
        holder.close()
        return None
    return holder


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As servers do: connections that were closed a moment ago do not keep the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def listening_processes(port: int) -> frozenset[int | None]:
    """Ids of the processes that listen on the port; None stands for one we may not look into."""
    return frozenset(
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,)
    )
