"""The evaluation of PaCoRe: draws of several models at the same time, then their comparison."""

from prefect import task

from flows.parallel.fan_out import result_of
from flows.ray.runners import asking_for, has_spare_worker
from pipeline_lib.systems.pacore.stages import PACORE
from pipeline_lib.systems.pacore.work import evaluation
from pipeline_lib.systems.stage import Run
from tasks.policies import SHARD
from tasks.stages import on_gpu, stage_task

_draw_evaluated = task(**SHARD, task_run_name="pacore-evaluate-{name}")(evaluation.draw_evaluated)


def evaluate(run: Run) -> None:
    """Draw for each model in a worker of its own, where each has an engine on CPUs; then compare them."""
    execution, stage = run.params.execution, PACORE.stage("pacore-evaluate")
    if has_spare_worker(execution) and run.params.serve.engine == "embedded" and not on_gpu():
        with asking_for(execution, "sample"):
            names = evaluation.evaluated_models(run)
            drawing = [_draw_evaluated.submit(run, name) for name in names]
        for future in drawing:
            result_of(future)
    stage_task(stage)(stage, run)
