"""A stage whose work is one function, as a Prefect task."""

from collections.abc import Callable

from prefect import task
from prefect.tasks import Task

from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.systems.stage import Run, Stage
from pipeline_lib.telemetry import timed_stage
from tasks.gpu import gpu_slot
from tasks.policies import PLAN, TRAINING


def do_stage(stage: Stage, run: Run, work: Callable[[Run], None] | None = None) -> None:
    """Do the work of ``stage``, or ``work`` in its place, in this process and record its time."""
    draw = {"draw": f"round-{run.round_number}"} if stage.in_rounds else {}
    with gpu_slot(wanted=stage.trains), timed_stage(run.root, stage.name, **draw):
        (work or stage.work())(run)


def stage_task(stage: Stage) -> Task[[Stage, Run], None]:
    """The task of ``stage``, with the policy for trainings or for other work."""
    policy = TRAINING if stage.trains else PLAN
    return task(**policy, name=stage.name, task_run_name=_run_name(stage))(do_stage)


def training_task(stage: Stage, work: Callable[[Run], None]) -> Task[[Run], None]:
    """The task of a training whose ``work`` is bound to what is no parameter for Prefect, as peers or processes."""

    @task(**TRAINING, name=stage.name, task_run_name=_run_name(stage))
    def train(run: Run) -> None:
        do_stage(stage, run, work)

    return train


def _run_name(stage: Stage) -> str:
    return f"{stage.name}-round-{{run.round_number}}" if stage.in_rounds else stage.name


def on_gpu() -> bool:
    """True if models are on a GPU, which stages share."""
    return visible_gpus() > 0
