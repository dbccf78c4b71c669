"""The report of a finished run: metrics, plots, one HTML file and the model card."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline_lib.publish.exports.model_card import CARD_NAME, model_card
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.report import write_report
from pipeline_lib.publish.reporting.revision import provenance, read_revision
from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.study.pages.page import study_tables
from pipeline_lib.study.pages.tables import markdown
from pipeline_lib.study.plan import CONTROL
from pipeline_lib.study.study import (
    METRICS_NAME,
    PROBLEMS_NAME,
    SUMMARY_NAME,
    VALUES_NAME,
    study_row,
    summary_row,
)
from pipeline_lib.systems.loop.finished_run import read_finished_run
from pipeline_lib.systems.loop.study import POLICY, SYSTEM
from pipeline_lib.telemetry import record_work

if TYPE_CHECKING:
    import pathlib

    from pipeline_lib.publish.reporting.report import ReportInput
    from pipeline_lib.study.pages.tables import Table
    from pipeline_lib.study.study import NamedArm, Study
    from pipeline_lib.systems.stage import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The report file, and the content of the run's artifacts."""

    report: pathlib.Path
    title: str
    summary: str
    """Claims and tables as Markdown."""
    scores: Table


def write_reports(run: Run) -> Written:
    """Write all files of the report, on every call, since durations differ between runs."""
    workspace, params = run.workspace, run.params
    record_work(run.root, "report", done=1, total=1)
    source = replace(read_finished_run(workspace, params), revision=read_revision())
    study = replace(
        source.study,
        provenance=provenance(params),
        compute=_compute(source),
        arms=tuple(_with_tokens(arm, source) for arm in source.study.arms),
    )
    source = replace(source, study=study)
    _write_metrics(run, study)
    written = write_report(source, workspace.reports)
    write_text(workspace.reports / CARD_NAME, model_card(source, params))
    title, *sentences = study.claims
    *_, scores = shown = study_tables(study)
    compute = tables.run_compute_table(source.spent)
    return Written(
        report=written,
        title=title,
        summary=markdown(title, [*sentences, *source.limits_of_claim], [*shown, compute]),
        scores=scores,
    )


def _with_tokens(arm: NamedArm, source: ReportInput) -> NamedArm:
    """The arm with the tokens that its training went through."""
    loop, control = source.spent.loop, source.spent.control
    if arm.base == CONTROL and control is not None:
        return replace(arm, trained_tokens=control.trained_tokens)
    return replace(arm, trained_tokens=loop.trained_tokens) if arm.base in {POLICY, "vote"} else arm


def _compute(source: ReportInput) -> dict[str, Any]:
    costs = source.costs
    return {
        **source.study.compute,
        **asdict(source.spent),
        "seconds": {**costs.seconds, "total": costs.total_seconds},
        "peak_mib": dict(costs.peaks_mib),
        "tokens": {stage: asdict(count) for stage, count in costs.tokens.items()},
        "unseen_number_sets": source.unseen_number_sets,
    }


def _write_metrics(run: Run, study: Study) -> None:
    """metrics.json and summary.json in ``reports``, and with the tables of the evaluation in ``reports/loop``."""
    workspace = run.workspace
    with replaced(workspace.reports / SYSTEM) as fresh:
        for name in (VALUES_NAME, PROBLEMS_NAME):
            shutil.copytree(workspace.evaluation_result / name, fresh / name)
        for folder in (fresh, workspace.reports):
            write_json(folder / METRICS_NAME, study_row(study))
            write_json(folder / SUMMARY_NAME, summary_row(study))
