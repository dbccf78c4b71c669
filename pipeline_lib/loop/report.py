"""The report: metrics, plots, one HTML file, the model card, and the headline as artifacts of the run."""

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

from pipeline_lib.exports.model_card import CARD_NAME, model_card
from pipeline_lib.params.whole import Params
from pipeline_lib.reporting import tables
from pipeline_lib.reporting.finished_run import read_finished_run
from pipeline_lib.reporting.metrics import metrics
from pipeline_lib.reporting.report import write_report
from pipeline_lib.storage.files import write_json, write_text
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import record_work
from tasks.policies import PLAN


@task(**PLAN, task_run_name="write-report")
def write_reports(workspace: Workspace, params: Params) -> None:
    """Write metrics.json, plots, report.html and the model card from what the stages left behind."""
    record_work(workspace.root, "report", done=1, total=1)
    source = read_finished_run(workspace, params)
    found = source.headline
    sentences = [*found.sentences, *source.limits_of_claim]
    write_json(
        workspace.metrics,
        metrics(
            source.result,
            seconds=source.seconds,
            total_seconds=source.total_seconds,
            tokens=source.tokens,
            spent=source.spent,
            unseen_number_sets=source.unseen_number_sets,
        )
        | {"headline": {"title": found.title, "sentences": sentences}},
    )
    files = write_report(source, workspace.reports)
    write_text(workspace.reports / CARD_NAME, model_card(source, params))
    scores = tables.score_table(source.result.summaries)
    shown = [scores, *tables.paired_tables(source.result), tables.compute_table(source.spent)]
    create_markdown_artifact(
        tables.markdown(found.title, sentences, shown), key="headline", description=found.title
    )
    create_table_artifact(
        [dict(zip(scores.columns, row, strict=True)) for row in scores.rows],
        key="scores",
        description=scores.caption,
    )
    create_link_artifact(files.report.as_uri(), link_text="report.html", key="report")
