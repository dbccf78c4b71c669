"""Readiness of a started engine: it alone listens on its port, which is leased, and it has drawn a token."""

import socket
import threading
import time
from dataclasses import dataclass

import psutil

from pipeline_lib.engines.known.engine import HOST, ServedModel
from pipeline_lib.engines.launch.probes import NoAnswerError, Probes
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.errors import ReasonloopError

_PORTS_TRIED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLease:
    """A port reserved against other runs until it is released, or this process ends.

    An engine needs seconds until it binds its port, and vLLM binds with SO_REUSEPORT: two of them on one
    port would share it, and receive each other's requests.
    """

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


_POLL_S = 0.25


class PortTakenError(ReasonloopError):
    """Another process took the port while the engine was starting."""


class StartCancelledError(Exception):
    """The engine was stopped while it was starting."""


def local_probes(port: int) -> Probes:
    """Probes of an engine on this machine."""
    return Probes(base_url=f"http://{HOST}:{port}/v1")


def wait_until_ready(
    process: EngineProcess, served: ServedModel, *, timeout_s: float, stopping: threading.Event
) -> None:
    """Wait until the engine lists its model and draws a token with it.

    Raises:
        PortTakenError: another process listens on the port, or did when the engine tried to bind.
        ReasonloopError: the engine ended, or is not ready in time; with the end of its log.
        StartCancelledError: ``stopping`` was set.
    """
    deadline = time.monotonic() + timeout_s
    reason: str | None = "it was not probed"
    while (left_s := deadline - time.monotonic()) > 0:
        if stopping.wait(_POLL_S):
            raise StartCancelledError
        if process.exit_code is not None:
            raise _start_failure(process, served)
        reason = _unready_reason(process, served, left_s)
        if reason is None:
            return
    raise ReasonloopError(
        f"{process.engine} does not work {timeout_s:g} s after its start "
        f"(serve.start_timeout_s): {reason}; its log ends: {process.log_tail()}"
    )


def _unready_reason(process: EngineProcess, served: ServedModel, left_s: float) -> str | None:
    listeners = listening_pids(served.port)
    if not listeners:
        return f"nothing listens on port {served.port}"
    # vLLM binds with SO_REUSEPORT: another listener would receive a share of its requests.
    if not listeners <= {child.pid for child in process.processes}:
        raise PortTakenError(f"port {served.port} was taken by another process")
    probes = local_probes(served.port)
    try:
        if served.name not in (listed := probes.models()):
            return f"it serves {', '.join(listed)} and not {served.name}"
        probes.draw_token(served.name, timeout_s=left_s)
    except NoAnswerError as error:
        return str(error)
    return None


def _start_failure(process: EngineProcess, served: ServedModel) -> ReasonloopError:
    if not is_free(served.port):
        return PortTakenError(f"port {served.port} was taken by another process")
    return ReasonloopError(f"{process.engine}, before it answered, {process.exit_summary}")
