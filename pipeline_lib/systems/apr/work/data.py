"""The stage of problems and traces."""

from pipeline_lib.systems.apr.data_folder import generate_data, own_data_set
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_work


def make_data(run: Run) -> None:
    """Write problems and traces, unless they exist."""
    generate_data(
        run.params.apr.data,
        run.workspace.apr.data,
        seed=run.params.seed,
        workers=run.params.execution.workers,
        prepare=own_data_set(run.params),
        replaces=True,
        progress=lambda done, total: record_work(run.root, "apr-data", done=done, total=total),
    )
