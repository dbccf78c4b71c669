"""The report of a finished run: metrics, plots, one HTML file and the model card."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline_lib.publish.exports.model_card import CARD_NAME, model_card
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.metrics_file import (
    build_further_metrics,
    build_metrics,
    build_summary,
)
from pipeline_lib.publish.reporting.report import write_report
from pipeline_lib.publish.reporting.revision import read_revision
from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.study.pages.tables import markdown
from pipeline_lib.systems.loop.finished_run import read_finished_run
from pipeline_lib.telemetry import record_work

if TYPE_CHECKING:
    import pathlib

    from pipeline_lib.study.pages.tables import Table
    from pipeline_lib.systems.stage import Run

SUMMARY_NAME = "summary.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The report file, and the content of the run's artifacts."""

    report: pathlib.Path
    title: str
    summary: str
    """Headline and tables as Markdown."""
    scores: Table


def write_reports(run: Run) -> Written:
    """Write all files of the report, on every call, since durations differ between runs."""
    workspace, params = run.workspace, run.params
    record_work(run.root, "report", done=1, total=1)
    source = replace(read_finished_run(workspace, params), revision=read_revision())
    found = source.headline
    sentences = [*found.sentences, *source.limits_of_claim]
    write_json(
        workspace.metrics,
        build_metrics(
            source.result,
            costs=source.costs,
            spent=source.spent,
            unseen_number_sets=source.unseen_number_sets,
        )
        | build_further_metrics(source.further)
        | {"headline": {"title": found.title, "sentences": sentences}},
    )
    write_json(workspace.reports / SUMMARY_NAME, build_summary(source.result))
    files = write_report(source, workspace.reports)
    write_text(workspace.reports / CARD_NAME, model_card(source, params))
    scores = tables.score_table(source.result.summaries)
    by_temperature = [source.by_temperature] if source.by_temperature else []
    shown = [
        scores,
        *by_temperature,
        *tables.paired_tables(source.result),
        tables.run_compute_table(source.spent),
    ]
    return Written(
        report=files.report,
        title=found.title,
        summary=markdown(found.title, sentences, shown),
        scores=scores,
    )
