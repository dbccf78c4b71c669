"""The report, as files and as artifacts of the Prefect run."""

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from pipeline_lib.systems.loop import report
from pipeline_lib.systems.stage import Run
from tasks.policies import PLAN


@task(**PLAN, task_run_name="write-report")
def write_report(run: Run, url: str | None) -> None:
    """Write metrics, plots, report and model card; ``url`` is where the UI finds the report."""
    written = report.write_reports(run)
    create_markdown_artifact(written.summary, key="headline", description=written.title)
    create_table_artifact(
        [dict(zip(written.scores.columns, row, strict=True)) for row in written.scores.rows],
        key="scores",
        description=written.scores.caption,
    )
    create_link_artifact(url or written.report.as_uri(), link_text="report.html", key="report")
