"""Task runners: threads of this process, or Ray, local or a cluster.

No other module imports Ray. The address of a running cluster is taken from RAY_ADDRESS.
"""

import logging
import queue
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from prefect.tasks import Task

from flows.ray_address import check_ray_address
from flows.watch import CHILDREN_POLL_S, children_problem, watched
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import ExecutionParams

SHARDS_PER_WORKER = 2
"""One in work and one queued."""

_RAY_PROCESSES = {"raylet", "gcs_server"}
"""Without them Ray hangs for minutes before it raises."""

In = TypeVar("In")
Out = TypeVar("Out")

# Without the address each Ray worker would start a Prefect server.
_PASSED_ON = ("PREFECT_API_URL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "DO_NOT_TRACK")


def task_runner(execution: ExecutionParams) -> TaskRunner[Any]:
    """The runner that ``execution`` asks for."""
    if execution.runner == "thread":
        return ThreadPoolTaskRunner(max_workers=execution.workers)
    from prefect_ray import RayTaskRunner  # noqa: PLC0415 - thread runs need no Ray

    runner: TaskRunner[Any] = RayTaskRunner(init_kwargs=_ray_options(execution))
    return runner


def has_spare_worker(execution: ExecutionParams) -> bool:
    """True if a second training can run in a worker process while the flow's process trains.

    Not with threads: two trainings in one process would share torch's generator and thread count.
    """
    return execution.runner == "ray" and execution.workers > 1


def map_bounded(task: Task[[In], Out], items: Iterable[In], *, in_flight: int) -> list[Out]:
    """Results of ``task`` for each item, in order; at most ``in_flight`` are submitted at a time.

    When any of them ends the next item is taken, so a long table holds neither tasks nor items in
    memory. The first failure is raised as it comes; what is done by then stays done, and nothing
    more is submitted.
    """
    ended: queue.SimpleQueue[PrefectFuture[Out]] = queue.SimpleQueue()
    pending: dict[PrefectFuture[Out], int] = {}
    results: dict[int, Out] = {}

    def collect_one() -> None:
        future = ended.get()
        results[pending.pop(future)] = future.result()

    for index, item in enumerate(items):
        with _signals_held():
            future = task.submit(item)
        pending[future] = index
        future.add_done_callback(ended.put)
        if len(pending) == in_flight:
            collect_one()
    while pending:
        collect_one()
    return [results[index] for index in range(len(results))]


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay SIGTERM and SIGINT until the end of the block.

    Prefect serializes much when a task is submitted. An exception of a signal handler would come
    out of that as an error of pydantic's, and the run would end as failed instead of as told to.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    # None: a handler installed from C, which cannot be restored.
    numbers = [n for n in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(n) is not None]
    handlers = {n: signal.signal(n, lambda number, _: held.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for came in held:
            signal.raise_signal(came)


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
