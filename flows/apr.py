"""Adaptive parallel reasoning (APR): data, a parallel and a serial model, their RL, evaluation."""

from prefect import flow

from flows.parallel.beside import do_in_order, trains_in_worker
from flows.ray.runners import cluster, task_runner
from flows.run.guard import run_guard
from pipeline_lib.systems.apr.stages import APR
from pipeline_lib.systems.stage import Run


@flow(name="apr", flow_run_name="apr-{run.params.apr.data.style}")
def apr(run: Run) -> None:
    """All stages in their order, each training of the serial model beside that of the parallel one."""
    with run_guard(run, uses_engine=False):
        in_worker = trains_in_worker("in_process", run.params.execution)
        do_in_order(APR, run, in_worker=in_worker)


def run_apr(run: Run) -> None:
    """Run all stages on the runner of the params."""
    with cluster(run.params.execution, run.root):
        apr.with_options(task_runner=task_runner(run.params.execution))(run)
