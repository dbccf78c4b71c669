"""A stage that is one task, as a flow; apart from the loop, whose imports take seconds."""

from prefect import flow

from flows.run_guard import run_guard
from pipeline_lib.stages.stage import Run
from pipeline_lib.stages.systems import STAGES
from tasks.stages import stage_task


@flow(name="stage", flow_run_name="{name}")
def one_task_stage(name: str, run: Run) -> None:
    """One stage alone, as DVC runs it."""
    with run_guard(run):
        stage = STAGES[name]
        stage_task(stage)(stage, run)
