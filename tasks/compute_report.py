"""What test-time compute leaves below ``reports/``."""

from prefect import task

from pipeline_lib.reporting.compute_report import write_compute_files
from pipeline_lib.storage.workspace import Workspace
from tasks.policies import PLAN


@task(**PLAN, task_run_name="write-compute-report")
def write_compute_report(workspace: Workspace) -> None:
    """Write JSON, CSV and figures of the curves."""
    write_compute_files(workspace)
