"""A stage that is one task, as a flow; apart from the loop, whose imports take seconds."""

from contextlib import nullcontext

from prefect import flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from flows.run.guard import run_guard
from pipeline_lib.systems.stage import Run
from pipeline_lib.systems.table import STAGES
from tasks.stages import stage_task


@flow(name="stage", flow_run_name="{name}")
def one_task_stage(name: str, run: Run) -> None:
    """One stage alone, as DVC runs it."""
    with run_guard(run):
        stage = STAGES[name]
        stage_task(stage)(stage, run)


def run_one_task_stage(name: str, run: Run) -> None:
    """Run the stage; with heartbeats only if it trains, since their thread delays the end by up to 1 s."""
    trains = STAGES[name].trains
    no_heartbeats = temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})
    with nullcontext() if trains else no_heartbeats:
        one_task_stage(name, run)
