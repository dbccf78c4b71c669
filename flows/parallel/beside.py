"""Stages in order, trainings of which some run beside others: each in a worker of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from prefect.futures import PrefectFuture

from flows.parallel.fan_out import result_of
from flows.ray.runners import asking_for, has_spare_worker, ray_gpus
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.systems.stage import Run, Stage
from tasks.stages import on_gpu, stage_task


def do_in_order(
    stages: Sequence[Stage],
    run: Run,
    *,
    in_worker: bool,
    before: Callable[[Stage], None] = lambda _stage: None,
    own_flows: Mapping[str, Callable[[Run], None]] = MappingProxyType({}),
) -> None:
    """Run all stages, with those that may run beside others on a spare worker.

    Args:
        stages: each of them is one task, unless it is among ``own_flows``.
        run: the run.
        in_worker: as in `begin_beside`.
        before: called before each stage.
        own_flows: what stages do that are more than one task, by name.
    """
    begun: dict[str, PrefectFuture[None]] = {}
    for stage in stages:
        begun |= begin_beside(stage, stages, run, in_worker=in_worker)
        before(stage)
        if stage.name in begun:
            result_of(begun[stage.name])
        elif stage.name in own_flows:
            own_flows[stage.name](run)
        else:
            stage_task(stage)(stage, run)


def trains_in_worker(rollouts: str, execution: ExecutionParams) -> bool:
    """True on a Ray with GPUs, of which each training takes one.

    An engine that a training starts stays with the flow's process, since it would outlive a worker.
    """
    return rollouts == "in_process" and ray_gpus(execution) > 0


def begin_beside(
    stage: Stage, stages: Iterable[Stage], run: Run, *, in_worker: bool
) -> dict[str, PrefectFuture[None]]:
    """Start, on a spare worker, those of ``stages`` that may run beside ``stage``; futures by their names.

    On one GPU, trainings run one after another, since they share its memory.

    Args:
        stage: that is about to run.
        stages: all of the system.
        run: the run.
        in_worker: trainings take a GPU of the cluster each (`trains_in_worker`).
    """
    execution = run.params.execution
    has_room = ray_gpus(execution) > 1 if in_worker else not on_gpu()
    if not has_spare_worker(execution) or not has_room:
        return {}
    with asking_for(execution, "train", uses_gpu=True):
        return {
            other.name: stage_task(other).submit(other, run)
            for other in stages
            if other.beside == stage.name
        }
