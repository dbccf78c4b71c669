"""The stage of problems and traces."""

from pipeline_lib.systems.apr.data_folder import generate_data
from pipeline_lib.systems.apr.own_data import own_data
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_work


def make_data(run: Run) -> None:
    """Write problems and traces, unless they exist."""
    generate_data(
        run.params.apr.data,
        run.workspace.apr.data,
        seed=run.params.seed,
        workers=run.params.execution.workers,
        own=own_data(run.params),
        replaces=True,
        progress=lambda done, total: record_work(run.root, "apr-data", done=done, total=total),
    )
