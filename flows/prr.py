"""Parallel latent branches (PRR): puzzles, model, evaluation."""

from prefect import flow

from flows.run.guard import run_guard
from pipeline_lib.systems.prr.stages import LATENT
from pipeline_lib.systems.stage import Run
from tasks.stages import stage_task


@flow(name="latent", flow_run_name="latent-{run.params.latent.data.task}")
def latent(run: Run) -> None:
    """All stages in their order."""
    with run_guard(run, uses_engine=False):
        for stage in LATENT:
            stage_task(stage)(stage, run)
