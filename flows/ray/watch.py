"""The connection to Ray, and a watch over the Ray of a run: without its processes it hangs for minutes before it raises.

Of a Ray on this machine all processes are watched, of a running cluster its address and the raylet that
the run is connected to. Other nodes may go: their tasks are done on the rest.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psutil

from flows.run.ray_address import check_ray_address, ray_address, ray_place
from flows.run.watch import (
    CHILDREN_POLL_S,
    SERVER_POLL_S,
    children_problem,
    processes_problem,
    silence_problem,
    watched,
)
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.whole import ExecutionParams

_RAYLET = "raylet"
_PATIENCE_S = 30.0
"""Longest silence of a cluster; after a minute Ray ends the process with a hundred lines."""

QUIET: dict[str, Any] = {
    "namespace": "reasonloop",
    "log_to_driver": False,
    # Ray prints advice about its settings at each start.
    "logging_level": logging.ERROR,
}


@contextmanager
def ray_connection(failure: str, **options: Any) -> Iterator[None]:
    """Ray, by ``options`` of its ``init``, for the block; ``failure`` is a message with a place for the reason."""
    import ray  # noqa: PLC0415 - thread runs need no Ray

    # Ray replaces the handler; with its own, SIGTERM would end the command with exit code 15.
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**QUIET, **options)
    except Exception as error:
        raise ReasonloopError(failure.format(reason_of(error))) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def ray_watched(execution: ExecutionParams) -> Iterator[None]:
    """End this process with one line and exit code 1 if Ray dies in the block; Ray is initialised."""
    if ray_address(execution) is None:
        with watched(children_problem({_RAYLET, "gcs_server"}), poll_s=CHILDREN_POLL_S):
            yield
        return
    with cluster_watched(f"the Ray cluster ({ray_place(execution)})", partial(_answers, execution)):
        yield


@contextmanager
def cluster_watched(name: str, answers: Callable[[], bool]) -> Iterator[None]:
    """End this process as `ray_watched` does if its raylet dies, or ``answers`` stays false; Ray is initialised."""
    raylet = processes_problem(_own_raylet())
    silence = silence_problem(name, answers, patience_s=_PATIENCE_S)
    with watched(raylet, poll_s=CHILDREN_POLL_S), watched(silence, poll_s=SERVER_POLL_S):
        yield


def _own_raylet() -> list[psutil.Process]:
    """The raylet of this process; none if that runs elsewhere (``ray://``)."""
    import ray  # noqa: PLC0415 - thread runs need no Ray

    own = ray.get_runtime_context().get_node_id()
    sockets = [node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == own]  # type: ignore[no-untyped-call]
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == _RAYLET
        and any(
            socket in argument for socket in sockets for argument in process.info["cmdline"] or []
        )
    ]


def _answers(execution: ExecutionParams) -> bool:
    try:
        check_ray_address(execution)
    except ReasonloopError:
        return False
    return True
