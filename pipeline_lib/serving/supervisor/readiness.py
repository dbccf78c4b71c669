"""The wait for an engine that was started: until its port is its own and a token was drawn."""

import threading
import time

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.serving.engines.engine import HOST, Served
from pipeline_lib.serving.supervisor.ports import is_free, listening_processes
from pipeline_lib.serving.supervisor.probes import NoAnswerError, Probes
from pipeline_lib.serving.supervisor.process import EngineProcess

_POLL_S = 0.25


class PortTakenError(ReasonloopError):
    """Somebody else took the port while the engine was starting."""


class UnwantedError(Exception):
    """The wait was given up, since nobody wants the engine any more."""


def local_probes(port: int) -> Probes:
    """Probes of an engine on this machine."""
    return Probes(base_url=f"http://{HOST}:{port}/v1")


def wait_until_ready(
    process: EngineProcess, served: Served, *, timeout_s: float, unwanted: threading.Event
) -> None:
    """Wait until the engine lists its model and draws a token for it.

    Raises:
        PortTakenError: another process listens on the port, or did when the engine wanted it.
        ReasonloopError: the engine ended, or does not answer in time; with its last words.
        UnwantedError: ``unwanted`` was set.
    """
    deadline = time.monotonic() + timeout_s
    missing: str | None = "it was not asked"
    while (left_s := deadline - time.monotonic()) > 0:
        if unwanted.wait(_POLL_S):
            raise UnwantedError
        if process.exit_code is not None:
            raise _ended(process, served)
        missing = _missing(process, served, left_s)
        if missing is None:
            return
    raise ReasonloopError(
        f"{process.engine} does not work {timeout_s:g} s after its start "
        f"(serve.start_timeout_s): {missing}; its last words: {process.last_words()}"
    )


def _missing(process: EngineProcess, served: Served, left_s: float) -> str | None:
    listeners = listening_processes(served.port)
    if not listeners:
        return f"nothing listens on port {served.port}"
    # vLLM lets others listen beside it, and they would get a share of its requests.
    if not listeners <= {child.pid for child in process.processes}:
        raise PortTakenError(f"port {served.port} was taken by another process")
    probes = local_probes(served.port)
    try:
        if served.name not in (listed := probes.models()):
            return f"it serves {', '.join(listed)} and not {served.name}"
        probes.one_token(served.name, timeout_s=left_s)
    except NoAnswerError as error:
        return str(error)
    return None


def _ended(process: EngineProcess, served: Served) -> ReasonloopError:
    if not is_free(served.port):
        return PortTakenError(f"port {served.port} was taken by another process")
    return ReasonloopError(f"{process.engine}, before it answered, {process.ending}")
