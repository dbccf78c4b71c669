"""Parallel latent branches (PRR): puzzles, model, evaluation."""

from prefect import flow

from pipeline_lib.stages.latent import LATENT
from pipeline_lib.stages.stage import Run
from tasks.stages import stage_task


@flow(name="latent", flow_run_name="latent-{run.params.latent.data.task}")
def latent(run: Run, name: str | None = None) -> None:
    """All stages, or the one of that name."""
    for stage in LATENT:
        if name in {None, stage.name}:
            stage_task(stage)(stage, run)
