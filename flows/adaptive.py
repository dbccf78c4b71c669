"""Adaptive parallel reasoning (APR): data, a parallel and a serial model, their RL, evaluation."""

from prefect import flow

from flows.beside import do_in_order, trains_in_worker
from flows.run_guard import run_guard
from flows.runners import cluster, task_runner
from pipeline_lib.stages.adaptive import ADAPTIVE
from pipeline_lib.stages.stage import Run


@flow(name="adaptive", flow_run_name="adaptive-{run.params.adaptive.data.style}")
def adaptive(run: Run) -> None:
    """All stages in their order, each training of the serial model beside that of the parallel one."""
    with run_guard(run, uses_engine=False):
        in_worker = trains_in_worker("in_process", run.params.execution)
        do_in_order(ADAPTIVE, run, in_worker=in_worker)


def run_adaptive(run: Run) -> None:
    """Run all stages on the runner of the params."""
    with cluster(run.params.execution, run.root):
        adaptive.with_options(task_runner=task_runner(run.params.execution))(run)
