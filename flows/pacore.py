"""PaCoRe on the policy of a finished run: cached messages, synthesizer and control, evaluation."""

from prefect import flow

from flows.parallel.beside import do_in_order, trains_in_worker
from flows.parallel.fan_out import result_of
from flows.ray.runners import asking_for, cluster, has_spare_worker, task_runner
from flows.run.guard import run_guard
from pipeline_lib.systems.pacore.stages import PACORE
from pipeline_lib.systems.stage import Run
from tasks.collaborative import draw_evaluated, evaluated_models
from tasks.stages import on_gpu


@flow(name="pacore", flow_run_name="pacore-{run.params.pacore.train.method.value}")
def pacore(run: Run) -> None:
    """All stages in their order, the control beside the synthesizer."""
    execution = run.params.execution
    with run_guard(run):
        do_in_order(
            PACORE,
            run,
            in_worker=trains_in_worker(run.params.pacore.train.rollouts, execution),
            before=lambda stage: _draw_beside(run) if stage.name == "pacore-evaluate" else None,
        )


def _draw_beside(run: Run) -> None:
    """Draw for the evaluated models in workers of their own, where each has an engine on CPUs."""
    execution = run.params.execution
    if not (has_spare_worker(execution) and run.params.serve.engine == "embedded") or on_gpu():
        return
    with asking_for(execution, "sample"):
        drawing = [draw_evaluated.submit(run, name) for name in evaluated_models(run)]
    for future in drawing:
        result_of(future)


def run_pacore(run: Run) -> None:
    """Run all stages on the runner of the params."""
    with cluster(run.params.execution, run.root):
        pacore.with_options(task_runner=task_runner(run.params.execution))(run)
