"""Where tasks run: threads of this process, or Ray, on a laptop as on a cluster.

Nothing else in the project knows Ray. The address of a running cluster is taken from RAY_ADDRESS.
"""

import logging
import pathlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from pydantic import BaseModel, ConfigDict

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params import ExecutionParams, Params, environment
from pipeline_lib.storage.workspace import Workspace

# Ray workers must talk to the server of this run; each would start one of its own otherwise.
_PASSED_ON = ("PREFECT_API_URL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "DO_NOT_TRACK")


class RunSettings(BaseModel):
    """Parameters of every flow: the workspace, and all of params.yaml."""

    model_config = ConfigDict(frozen=True)

    root: pathlib.Path
    params: Params

    @property
    def workspace(self) -> Workspace:
        """The folders below ``root``."""
        return Workspace(self.root)


def task_runner(execution: ExecutionParams) -> TaskRunner[Any]:
    """The runner that ``execution`` asks for."""
    if execution.runner == "thread":
        return ThreadPoolTaskRunner(max_workers=execution.workers)
    from prefect_ray import RayTaskRunner  # noqa: PLC0415 - thread runs need no Ray

    runner: TaskRunner[Any] = RayTaskRunner(init_kwargs=_ray_options(execution))
    return runner


@contextmanager
def cluster(execution: ExecutionParams) -> Iterator[None]:
    """Hold one Ray for all subflows of a run, so that its workers and their imports are kept.

    Raises:
        ReasonloopError: there is no Prefect server for the workers, or no CPU to run them on.
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

    # Ray puts a handler of its own in place, under which SIGTERM would end the command with 15.
    handler = signal.getsignal(signal.SIGTERM)
    ray.init(**_ray_options(execution))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        if ray.cluster_resources().get("CPU", 0) < 1:  # type: ignore[no-untyped-call]
            raise ReasonloopError("the Ray cluster has no CPU; add a node or unset RAY_ADDRESS")
        yield
    finally:
        ray.shutdown()


def _ray_options(execution: ExecutionParams) -> dict[str, Any]:
    passed_on = {name: environment(name) for name in _PASSED_ON}
    options: dict[str, Any] = {
        "namespace": "reasonloop",
        "log_to_driver": False,
        # Ray advises about its own settings on each start; a run's console is for the run.
        "logging_level": logging.ERROR,
        "runtime_env": {"env_vars": {name: value for name, value in passed_on.items() if value}},
    }
    if environment("RAY_ADDRESS") is None:
        options |= {"num_cpus": execution.workers, "include_dashboard": False}
    return options
