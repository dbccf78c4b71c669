"""Task runners: threads of this process, or Ray, local or a cluster.

No other module imports Ray. The address of a running cluster is taken from RAY_ADDRESS.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.ray_address import check_ray_address
from flows.watch import CHILDREN_POLL_S, children_problem, watched
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import ExecutionParams

SHARDS_PER_WORKER = 2
"""One in work and one queued."""

_RAY_PROCESSES = {"raylet", "gcs_server"}
"""Without them Ray hangs for minutes before it raises."""

# Without the address each Ray worker would start a Prefect server.
_PASSED_ON = ("PREFECT_API_URL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "DO_NOT_TRACK")


def task_runner(execution: ExecutionParams, *, waiting: int = 0) -> TaskRunner[Any]:
    """The runner that ``execution`` asks for; ``waiting`` more threads are for tasks that only wait."""
    if execution.runner == "thread":
        return ThreadPoolTaskRunner(max_workers=execution.workers + waiting)
    from prefect_ray import RayTaskRunner  # noqa: PLC0415 - thread runs need no Ray

    runner: TaskRunner[Any] = RayTaskRunner(init_kwargs=_ray_options(execution))
    return runner


def has_spare_worker(execution: ExecutionParams) -> bool:
    """True if a second training can run in a worker process while the flow's process trains.

    Not with threads: two trainings in one process would share torch's generator and thread count.
    """
    return execution.runner == "ray" and execution.workers > 1


@contextmanager
def without_cpu(execution: ExecutionParams) -> Iterator[None]:
    """Tasks that are submitted in the block only wait, so they take no CPU of a node of Ray's."""
    if execution.runner == "thread":
        yield
        return
    from prefect_ray.context import remote_options  # noqa: PLC0415 - thread runs need no Ray

    with remote_options(num_cpus=0):
        yield


def shards_in_flight(execution: ExecutionParams) -> int:
    """Shards submitted at a time: `SHARDS_PER_WORKER` per worker, or per CPU of a running cluster."""
    workers = execution.workers
    if execution.runner == "ray" and environment("RAY_ADDRESS"):
        import ray  # noqa: PLC0415 - thread runs need no Ray

        workers = int(ray.cluster_resources().get("CPU", workers))  # type: ignore[no-untyped-call]
    return SHARDS_PER_WORKER * max(1, workers)


@contextmanager
def cluster(execution: ExecutionParams) -> Iterator[None]:
    """Hold one Ray for all subflows of a run, so that its workers and their imports are kept.

    Raises:
        ReasonloopError: there is no Prefect server for the workers, Ray does not start, or it has
            no CPU to run them on.
    """
    if execution.runner == "thread":
        yield
        return
    if not environment("PREFECT_API_URL"):
        raise ReasonloopError(
            "PREFECT_API_URL is not set, so every Ray worker would start a server of its own; "
            "use `reasonloop run`, or set it"
        )
    import ray  # noqa: PLC0415 - thread runs need no Ray

    check_ray_address()
    # Ray replaces the handler; with its own, SIGTERM would end the command with exit code 15.
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**_ray_options(execution))
    except Exception as error:
        where = environment("RAY_ADDRESS") or "on this machine"
        raise ReasonloopError(
            f"Ray {where} does not start ({reason_of(error)}); see /tmp/ray/session_latest/logs, set "
            "RAY_ADDRESS to a cluster that runs, or use --runner thread"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        if ray.cluster_resources().get("CPU", 0) < 1:  # type: ignore[no-untyped-call]
            raise ReasonloopError("the Ray cluster has no CPU; add a node or unset RAY_ADDRESS")
        with watched(children_problem(_RAY_PROCESSES), poll_s=CHILDREN_POLL_S):
            yield
    finally:
        ray.shutdown()


def _ray_options(execution: ExecutionParams) -> dict[str, Any]:
    passed_on = {name: environment(name) for name in _PASSED_ON}
    options: dict[str, Any] = {
        "namespace": "reasonloop",
        "log_to_driver": False,
        # Ray prints advice about its settings at each start.
        "logging_level": logging.ERROR,
        "runtime_env": {"env_vars": {name: value for name, value in passed_on.items() if value}},
    }
    if environment("RAY_ADDRESS") is None:
        options |= {"num_cpus": execution.workers, "include_dashboard": False}
    return options
