"""A training on several processes by Ray Train: one stage, which each process does with its share of every batch.

Ray starts the processes, makes their group, and starts all again when one is lost. They resume from the sealed
checkpoints of the workspace; Ray's own are not used.
"""

import os
import pathlib
import pickle
import platform
import shutil
import time
from collections.abc import Mapping
from typing import Any

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
from ray.train.torch import TorchConfig, TorchTrainer

from flows.ray.nodes import train_gpus
from pipeline_lib.errors import GivenUpError, ReasonloopError, reason_of
from pipeline_lib.systems.stage import Run, Stage
from pipeline_lib.systems.table import STAGES
from pipeline_lib.telemetry import record_event
from pipeline_lib.train.devices import present_devices

_COLLECTIVE_TIMEOUT_S = 1800
"""Of a process that waits for the others."""
_ALIKE_S = 30.0
"""For the others to fail with the same line as one process, before it counts as lost."""
_POLL_S = 0.1
_DEAD = "HealthCheck"
"""In the names of Ray's errors for a process that has died."""
_REASON = 100


def train_on_processes(stage: Stage, run: Run) -> None:
    """Do the training ``stage`` on as many processes as its params say; Ray is initialised.

    Raises:
        ReasonloopError: what the training raises in all processes, or more processes were lost than
            `execution.train_retries`, which is a `GivenUpError`.
    """
    execution, count = run.params.execution, stage.processes(run.params)
    wanted = execution.resources.train
    gpus = train_gpus(execution)
    folder = run.root.resolve() / f".{stage.name}.ray"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    trainer = TorchTrainer(
        _train_share,
        train_loop_config={"name": stage.name, "run": run, "folder": str(folder)},
        torch_config=TorchConfig(
            backend="nccl" if gpus else "gloo", timeout_s=_COLLECTIVE_TIMEOUT_S
        ),
        scaling_config=ScalingConfig(
            num_workers=count,
            use_gpu=gpus > 0,
            resources_per_worker={"CPU": wanted.num_cpus, **({"GPU": gpus} if gpus else {})},
        ),
        run_config=RunConfig(
            name=stage.name,
            storage_path=str(folder),
            failure_config=FailureConfig(max_failures=execution.train_retries),
            callbacks=[_Losses(stage.name, run.root)],  # type: ignore[list-item]  # of the version before
        ),
    )
    try:
        trainer.fit()
        failures = _failures(folder)
    except ray.train.TrainingFailedError as error:
        failures = _failures(folder)
        raised = error.worker_failures if isinstance(error, ray.train.WorkerGroupError) else None
        if not failures and (raised is None or (len(raised) == count and not _died(raised))):
            raise  # of Ray itself, or a bug, which every process meets
        if not failures:
            lost, most = execution.train_retries + 1, execution.train_retries
            raise GivenUpError(
                f"{stage.name}: of {count} processes some were lost {lost} times (execution.train_retries={most}); "
                "run the same command again to resume"
            ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failures:
        raise failures[0]


def _train_share(given: dict[str, Any]) -> None:
    """The training in one process."""
    stage, run, folder = STAGES[given["name"]], given["run"], pathlib.Path(given["folder"])
    rank, world = present_devices().rank, present_devices().world
    places = present_devices().gather([f"{platform.node()} (pid {os.getpid()})"])
    if rank == 0:
        record_event(run.root, "note", text=f"{stage.name}: {world} processes, {', '.join(places)}")
    try:
        stage.work()(run)
    except ReasonloopError as error:
        _keep(error, folder / f"{rank}.error")
        # Where all fail alike, starting them again would not help. One alone leaves the others in a collective.
        deadline = time.monotonic() + _ALIKE_S
        while len(_failures(folder)) < world:
            if time.monotonic() > deadline:
                (folder / f"{rank}.error").unlink()
                raise
            time.sleep(_POLL_S)


def _died(failures: Mapping[int, Exception]) -> list[int]:
    return sorted(rank for rank, one in failures.items() if _DEAD in type(one).__name__)


class _Losses(UserCallback):
    """Notes each loss of processes, for the log of the run."""

    def __init__(self, name: str, root: pathlib.Path) -> None:
        self._name, self._root = name, root

    def after_exception(  # type: ignore[override, explicit-override]  # Ray calls it by names
        self, *, worker_exceptions: dict[int, Exception], **_more: Any
    ) -> None:
        # The others raise that their connection to it is closed.
        for rank in _died(worker_exceptions) or sorted(worker_exceptions):
            reason = reason_of(worker_exceptions[rank])[:_REASON]
            text = f"{self._name}: process {rank} was lost ({reason})"
            record_event(self._root, "note", text=text)


def _keep(error: ReasonloopError, file: pathlib.Path) -> None:
    whole = file.with_suffix(".part")
    whole.write_bytes(pickle.dumps(error))
    whole.rename(file)


def _failures(folder: pathlib.Path) -> list[ReasonloopError]:
    return [pickle.loads(file.read_bytes()) for file in sorted(folder.glob("*.error"))]  # noqa: S301 - ours
