"""Readiness of a started engine: it alone listens on its port, and it has drawn a token."""

import threading
import time

from pipeline_lib.engines.known.engine import HOST, ServedModel
from pipeline_lib.engines.launch.ports import is_free, listening_pids
from pipeline_lib.engines.launch.probes import NoAnswerError, Probes
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.errors import ReasonloopError

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
