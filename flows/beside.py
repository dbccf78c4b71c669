"""Trainings that run beside each other: each in a worker of its own."""

from collections.abc import Iterable

from prefect.futures import PrefectFuture

from flows.runners import asking_for, has_spare_worker, ray_gpus
from pipeline_lib.params.train import TrainParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.stages.stage import Run, Stage
from tasks.stages import on_gpu, stage_task


def trains_in_worker(train: TrainParams, execution: ExecutionParams) -> bool:
    """True on a Ray with GPUs, of which each training takes one.

    An engine that a training starts stays with the flow's process, since it would outlive a worker.
    """
    return train.rollouts == "in_process" and ray_gpus(execution) > 0


def begin_beside(
    stage: Stage, stages: Iterable[Stage], run: Run, train: TrainParams
) -> dict[str, PrefectFuture[None]]:
    """Start, on a spare worker, those of ``stages`` that may run beside ``stage``; futures by their names.

    On one GPU, trainings run one after another, since they share its memory.
    """
    execution = run.params.execution
    in_worker = trains_in_worker(train, execution)
    has_room = ray_gpus(execution) > 1 if in_worker else not on_gpu()
    if not has_spare_worker(execution) or not has_room:
        return {}
    with asking_for(execution, "train", uses_gpu=True):
        return {
            other.name: stage_task(other).submit(other, run)
            for other in stages
            if other.beside == stage.name
        }
