"""Task runners: threads of this process, or Ray, local or a cluster.

Of `flows`, only this module and its siblings import Ray.
"""

import importlib
import math
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.ray.node_probe import PACKAGES
from flows.run.ray_address import check_ray_address, keep_ray_on_loopback, ray_address, ray_place
from flows.server.server import LOOPBACK
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.whole import ExecutionParams
from tasks.gpu import machine_gpus

SHARDS_PER_WORKER = 2
"""One in work and one queued."""

_PASSED_ON = (
    # Without the address each Ray worker would start a Prefect server.
    *("PREFECT_API_URL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "DO_NOT_TRACK"),
    *("HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    # Choice of CPU kernels, which changes the rounding of results.
    *("ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA"),
)
"""Variables that workers get. No secrets: Ray shows them to everyone who can reach the cluster."""
_HIDE_GPUS = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
"""Without it Ray shows all GPUs of a node to tasks that ask for none, and they would take the first."""

_REMEDY = (
    "see its logs (session_latest/logs in ray's temporary folder), set RAY_AUTH_MODE=token if it asks for "
    "one, with RAY_AUTH_TOKEN or ~/.ray/auth_token, pass another --ray-address, or use --runner thread"
)
TaskKind = Literal["sample", "verify", "train"]
"""Key of `execution.resources`."""


def task_runner(execution: ExecutionParams, *, waiting: int = 0) -> TaskRunner[Any]:
    """The runner that ``execution`` asks for; ``waiting`` more threads are for tasks that only wait."""
    if execution.runner == "thread":
        return ThreadPoolTaskRunner(max_workers=execution.workers + waiting)
    from prefect_ray import RayTaskRunner  # noqa: PLC0415 - thread runs need no Ray

    from flows.ray import nodes  # noqa: PLC0415 - as above

    runner: TaskRunner[Any] = RayTaskRunner(init_kwargs=nodes.QUIET | _ray_options(execution))
    return runner


def ray_gpus(execution: ExecutionParams) -> float:
    """GPUs of the Ray that runs; 0 with threads, and before :func:`cluster`."""
    if execution.runner == "thread":
        return 0.0
    from flows.ray import nodes  # noqa: PLC0415 - thread runs need no Ray

    return nodes.num_gpus()


def has_spare_worker(execution: ExecutionParams) -> bool:
    """True if a second training can run in a worker process beside the first one.

    Not with threads: two trainings in one process would share torch's generator and thread count.
    """
    return execution.runner == "ray" and execution.workers > 1


@contextmanager
def asking_for(
    execution: ExecutionParams, kind: TaskKind, *, uses_gpu: bool = False, waits: bool = False
) -> Iterator[None]:
    """Tasks that are submitted in the block take the resources of ``kind`` from their node.

    Args:
        execution: with the resources; a number of GPUs that is null there is decided here.
        kind: kind of the tasks.
        uses_gpu: they compute on a GPU where there is one, so each takes one.
        waits: they only wait for a server, so they take no CPU.
    """
    if execution.runner == "thread":
        yield
        return
    from prefect_ray.context import remote_options  # noqa: PLC0415 - thread runs need no Ray

    kinds = execution.resources
    wanted = {"sample": kinds.sample, "verify": kinds.verify, "train": kinds.train}[kind]
    gpus = wanted.num_gpus
    if gpus is None:
        gpus = 1 if uses_gpu and ray_gpus(execution) else 0
    memory = {"memory": wanted.memory_mb * 2**20} if wanted.memory_mb else {}
    num_cpus = 0 if waits else wanted.num_cpus
    with remote_options(num_cpus=num_cpus, num_gpus=gpus, **memory):
        yield


def shards_in_flight(execution: ExecutionParams) -> int:
    """Shards submitted at a time: `SHARDS_PER_WORKER` per worker, or per CPU of a running cluster."""
    workers = execution.workers
    if execution.runner == "ray" and ray_address(execution):
        import ray  # noqa: PLC0415 - thread runs need no Ray

        workers = int(ray.cluster_resources().get("CPU", workers))  # type: ignore[no-untyped-call]
    return SHARDS_PER_WORKER * max(1, workers)


@contextmanager
def cluster(
    execution: ExecutionParams, root: pathlib.Path | None = None, *, processes: int = 1
) -> Iterator[None]:
    """Hold one Ray for all subflows of a run, so that its workers and their imports are kept.

    The nodes of a running cluster must share the workspace ``root``; None: no task of a flow runs there, and no Prefect
    server is needed. ``processes`` are of its largest training, for which a Ray on this machine has CPUs.

    Raises:
        BadInputError: no node can give what `execution.resources` asks for.
        ReasonloopError: there is no Prefect server for the workers, Ray does not start, it has no CPU
            to run them on, or one of its nodes cannot work on ``root``.
    """
    if execution.runner == "thread":
        yield
        return
    api_url = environment("PREFECT_API_URL") or ""
    if root and not api_url:
        raise ReasonloopError(
            "PREFECT_API_URL is not set, so every Ray worker would start a server of its own; "
            "use `reasonloop run`, or set it"
        )
    if ray_address(execution) is None:
        keep_ray_on_loopback()
    from flows.ray import nodes  # noqa: PLC0415 - thread runs need no Ray

    check_ray_address(execution)
    needed = math.ceil(processes * execution.resources.train.num_cpus) if processes > 1 else 0
    roomy = execution.model_copy(update={"workers": max(execution.workers, needed)})
    with _connected(roomy):
        if root and ray_address(execution):
            nodes.check_nodes(root, api_url)
        nodes.check_resources(execution, processes=processes)
        with nodes.ray_watched(execution):
            yield


def check_cluster(execution: ExecutionParams, root: pathlib.Path, api_url: str) -> int:
    """Check the nodes of a running cluster as a run does; returns their number.

    Raises:
        BadInputError: no node can give what `execution.resources` asks for.
        ReasonloopError: the cluster cannot be used, or one of its nodes cannot work on ``root``.
    """
    from flows.ray import nodes  # noqa: PLC0415 - thread runs need no Ray

    with _connected(execution):
        nodes.check_nodes(root, api_url)
        nodes.check_resources(execution)
        return len(nodes.living_nodes())


@contextmanager
def _connected(execution: ExecutionParams) -> Iterator[None]:
    """Start Ray, or connect to the cluster of ``execution``, for the block."""
    import ray  # noqa: PLC0415 - thread runs need no Ray

    from flows.ray import nodes  # noqa: PLC0415 - as above

    place = ray_place(execution)
    failure = f"Ray ({place}) does not start ({{}}); {_REMEDY}"
    with nodes.ray_connection(failure, **_ray_options(execution)):
        if ray.cluster_resources().get("CPU", 0) < 1:  # type: ignore[no-untyped-call]
            raise ReasonloopError(
                f"the Ray cluster ({place}) has no CPU; add a node, or use another"
            )
        yield


def _ray_options(execution: ExecutionParams) -> dict[str, Any]:
    passed_on = {name: environment(name) for name in _PASSED_ON}
    variables = {name: value for name, value in passed_on.items() if value} | _HIDE_GPUS
    environment_of_workers: dict[str, Any] = {"env_vars": variables}
    address = ray_address(execution)
    if address is not None:
        # Nodes may have other code, or none.
        environment_of_workers["py_modules"] = [importlib.import_module(name) for name in PACKAGES]
        return {"runtime_env": environment_of_workers, "address": address}
    # Before Ray puts the current folder, which may have packages of these names, before all others.
    environment_of_workers["worker_process_setup_hook"] = "flows.ray.node_probe.import_packages"
    return {
        "runtime_env": environment_of_workers,
        # A shard on a GPU takes a CPU, and its verdicts another.
        "num_cpus": max(execution.workers, 2 * machine_gpus()),
        "include_dashboard": False,
        "_node_ip_address": LOOPBACK,
    }
