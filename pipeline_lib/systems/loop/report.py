"""The report of a finished run: metrics, report.html, plots as SVG with their data as CSV, and the model card."""

import csv
import io
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.study.attempts import MAIN
from pipeline_lib.study.pages.cost_figures import cost_figures
from pipeline_lib.study.pages.figures import Plot
from pipeline_lib.study.pages.page import (
    REPORT_NAME,
    Page,
    Paper,
    Section,
    study_tables,
    write_page,
)
from pipeline_lib.study.pages.tables import Table, mapping_table, markdown
from pipeline_lib.study.pages.training_curves import training_plots
from pipeline_lib.study.pages.wording import count, percent, words
from pipeline_lib.study.policies import Flips, PathCounts
from pipeline_lib.study.provenance import read_revision
from pipeline_lib.study.study import (
    ALL,
    METRICS_NAME,
    PROBLEMS_NAME,
    SUMMARY_NAME,
    VALUES_NAME,
    Point,
    study_row,
    summary_row,
)
from pipeline_lib.systems.loop.compute import cost_table, spent_table
from pipeline_lib.systems.loop.exports.model_card import CARD_NAME, model_card
from pipeline_lib.systems.loop.finished_run import FinishedRun, read_finished_run
from pipeline_lib.systems.loop.reporting import plots
from pipeline_lib.systems.loop.reporting.control_text import limits_of_claim
from pipeline_lib.systems.loop.reporting.examples import pick_examples
from pipeline_lib.systems.loop.study import SYSTEM
from pipeline_lib.systems.loop.test_time.studies import NOTE
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_work

PLOTS_FOLDER = "plots"
PAPER = Paper(
    title="Chen et al. 2021, pass@k; Shao et al. 2024, GRPO",
    url="https://arxiv.org/abs/2402.03300",
)
_TRAINING_CURVES = ("reward", "entropy", "mean_tokens", "loss")
_FLIPS_SHOWN = 15
_SCORES = (
    "Right is what the problem asks for in the requested format; lenient is right by any form of the answer. pass@k "
    "is the unbiased estimate over each problem's scored paths. Intervals are over problems, of one path per "
    "problem Wilson's. A difference is a finding only if its interval excludes zero and the sign-flip test over "
    "problems is significant."
)


class Written(NamedTuple):
    """The report file, and the content of the run's artifacts."""

    report: pathlib.Path
    title: str
    summary: str
    """Claims and tables as Markdown."""
    scores: Table


def write_reports(run: Run) -> Written:
    """Write all files of the report, on every call, since durations differ between runs."""
    workspace = run.workspace
    record_work(run.root, "report", done=1, total=1)
    finished = read_finished_run(workspace, run.params)
    study = finished.study
    with replaced(workspace.reports / SYSTEM) as fresh:
        for name in (VALUES_NAME, PROBLEMS_NAME):
            shutil.copytree(workspace.evaluation_result / name, fresh / name)
        for folder in (fresh, workspace.reports):
            write_json(folder / METRICS_NAME, study_row(study))
            write_json(folder / SUMMARY_NAME, summary_row(study))
    report = write_report(finished, workspace.reports, revision=read_revision())
    write_text(workspace.reports / CARD_NAME, model_card(finished))
    title, *sentences = study.claims
    *_, scores = shown = study_tables(study)
    tables = [*shown, spent_table(study.compute)]
    return Written(
        report=report,
        title=title,
        summary=markdown(title, [*sentences, *limits_of_claim(finished)], tables),
        scores=scores,
    )


def write_report(
    run: FinishedRun, folder: pathlib.Path, *, revision: Mapping[str, str]
) -> pathlib.Path:
    """Write report.html, whose path is returned, and below ``plots`` the plots as SVG and their data as CSV.

    Args:
        run: what is shown.
        folder: to write to.
        revision: of the repository that writes the report; empty outside of a repository.
    """
    flips = Flips.between(
        *(run.values[run.arms[name], "pass@1", ALL] for name in ("base", "trained"))
    )
    training = training_plots(run.training_log, _TRAINING_CURVES)
    curves = pass_at_k_curves(run)
    curve = plots.pass_at_k_plot(curves)
    page = Page(
        title="the verified loop",
        paper=PAPER,
        notes=[_SCORES],
        plots=[curve],
        sections=list(_sections(run, training, flips, revision)),
        examples=pick_examples(
            flips,
            run.groups["base"],
            run.groups["trained"],
            limit=run.params.report.num_examples,
        ),
    )
    report = folder / REPORT_NAME
    write_page(report, run.study, page)
    place = folder / PLOTS_FOLDER
    for one in (curve, *training):
        write_text(place / f"{one.name}.svg", one.svg)
    write_text(place / "pass_at_k.csv", csv_text(_curve_rows(curves)))
    if run.training_log:
        write_text(place / "training.csv", csv_text(run.training_log))
    return report


def pass_at_k_curves(run: FinishedRun) -> dict[str, list[Point]]:
    """pass@k by arm at the temperature of sampling, by growing k."""
    return {
        arm: [
            one
            for one in run.study.points
            if (one.arm, one.subset, one.set) == (arm, ALL, MAIN)
            and one.measure.startswith("pass@")
        ]
        for arm in run.arms.values()
    }


def _sections(
    run: FinishedRun, training: Sequence[Plot], flips: Flips, revision: Mapping[str, str]
) -> Iterator[Section]:
    compute = run.study.compute
    yield Section(
        title="Held-out problems" if run.control is None else "Control",
        notes=limits_of_claim(run),
        tables=[spent_table(compute)],
    )
    if training:
        yield Section(title="Training", plots=training)
    for study in run.test_time.values():
        yield Section(
            title=study.system.capitalize(),
            notes=[NOTE],
            tables=study_tables(study),
            plots=cost_figures(study),
        )
    yield Section(title="Paths", tables=[status_table(run.counts), flips.table(limit=_FLIPS_SHOWN)])
    yield Section(
        title="Time and tokens",
        tables=[cost_table(compute), mapping_table("Spending on sampling", run.spending)],
    )
    shared = run.preparation["overlap"]["samples"]
    yield Section(
        title="Data",
        tables=[
            mapping_table("Data card", run.data_counts),
            mapping_table("Overlap of train and test", run.overlap),
            *([overlap_table(shared)] if shared else []),
        ],
    )
    digests = mapping_table("Digests of the run", run.lineage)
    written_by = [mapping_table("Revision that wrote this report", revision)] if revision else []
    yield Section(title="Lineage", tables=[digests, *written_by])


def overlap_table(samples: Sequence[Mapping[str, str]]) -> Table:
    """Word runs shared by test and train questions, one per test problem."""
    return Table(
        caption="Word runs shared by test and train questions",
        columns=("test problem", "train problem", "shared words"),
        rows=tuple((one["test_id"], one["train_id"], one["words"]) for one in samples),
    )


def status_table(policies: Mapping[str, PathCounts]) -> Table:
    """Paths by verdict status, one column per policy; only statuses that occur."""
    each = list(policies.values())

    def row(name: str, values: Iterable[float]) -> tuple[str, ...]:
        return (name, *(count(value) for value in values))

    statuses = dict.fromkeys(status for one in each for status in one.statuses)
    reasons = sorted({reason for one in each for reason in one.reasons})
    return Table(
        caption="Paths by status; failed requests and verifications are not scored",
        columns=("paths", *policies),
        rows=(
            *(
                row(words(one), (counts.statuses.get(one, 0) for counts in each))
                for one in statuses
            ),
            row("of these, not scored", (counts.unscored for counts in each)),
            *(
                row(f"not scored: {words(one)}", (counts.reasons.get(one, 0) for counts in each))
                for one in reasons
            ),
            ("truncated", *(percent(counts.truncated) for counts in each)),
            ("tokens per path", *(f"{counts.mean_tokens:.1f}" for counts in each)),
            row("problems left out", (counts.left_out for counts in each)),
        ),
    )


def _curve_rows(curves: Mapping[str, Sequence[Point]]) -> list[dict[str, object]]:
    return [
        {
            "policy": arm,
            "k": int(one.measure.removeprefix("pass@")),
            "value": one.value,
            "low": one.low,
            "high": one.high,
        }
        for arm, points in curves.items()
        for one in points
    ]


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV with a header; missing columns are empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
