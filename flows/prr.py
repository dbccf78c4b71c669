"""Parallel latent branches (PRR): puzzles, model, evaluation."""

from prefect import flow

from flows.run.guard import run_guard
from pipeline_lib.systems.prr.stages import PRR
from pipeline_lib.systems.stage import Run
from tasks.stages import stage_task


@flow(name="prr", flow_run_name="prr-{run.params.prr.data.task}")
def prr(run: Run) -> None:
    """All stages in their order."""
    with run_guard(run, uses_engine=False):
        for stage in PRR:
            stage_task(stage)(stage, run)
