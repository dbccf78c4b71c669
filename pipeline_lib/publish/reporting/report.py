"""report.html: one self-contained file, readable on a phone, without network requests.

Model output is escaped by the template; there is no script, and the content security policy forbids
every request.
"""

import csv
import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.problems.overlap import OverlapSample
from pipeline_lib.publish.reporting import plots, tables
from pipeline_lib.publish.reporting.control_text import (
    control_name,
    control_sentences,
    number_set_sentence,
    template_sentence,
)
from pipeline_lib.publish.reporting.curve_plots import curve_table, plot_curves
from pipeline_lib.publish.reporting.examples import pick_examples
from pipeline_lib.publish.reporting.headline import EQUAL, Headline, make_loop_headline
from pipeline_lib.publish.reporting.metrics_file import StageCosts
from pipeline_lib.publish.reporting.plots import TRAINING_PREFIX, TrainingRow
from pipeline_lib.publish.reporting.run_compute import RunCompute
from pipeline_lib.records import Group
from pipeline_lib.store.files import write_text
from pipeline_lib.study.curves.result import ComputeCurves
from pipeline_lib.study.pages.environment import page_environment
from pipeline_lib.study.pages.figures import Plot
from pipeline_lib.study.pages.tables import Table, mapping_table
from pipeline_lib.study.result import EvaluationResult, FurtherResults
from pipeline_lib.train.control_report import ControlReport

REPORT_NAME = "report.html"
PLOTS_FOLDER = "plots"
_TEMPLATE_NAME = "report.html.j2"
_TRAINING_CURVES = ("reward", "entropy", "mean_tokens", "loss")
_FLIPS_SHOWN = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """Content of the report."""

    result: EvaluationResult
    costs: StageCosts
    spent: RunCompute
    control: ControlReport | None
    """None if the run had no control."""
    unseen_number_sets: int | None
    """Held-out problems whose numbers occur in no training problem; None if not Countdown."""
    spending: Mapping[str, str | float]
    """Spending on sampling: engine, requests, tokens, engine seconds, cost."""
    training_log: Sequence[TrainingRow]
    data_counts: Mapping[str, float]
    """Counts of the data card."""
    overlap: Mapping[str, float]
    """Overlap between training and evaluation sets."""
    lineage: Mapping[str, str]
    """Digests and versions that identify the run."""
    base_groups: Iterable[Group]
    """Judged paths by problem; a table is read anew on each pass."""
    trained_groups: Iterable[Group]
    control_groups: Iterable[Group] | None
    num_examples: int
    shared_runs: Sequence[OverlapSample] = ()
    """Word runs shared by a test and a train question, for manual inspection."""
    further: FurtherResults = field(default_factory=FurtherResults)
    trained_on: Sequence[str] = ()
    """Of `problems.trained`, about the policies and the held-out problems."""
    unseen_templates: int | None = None
    """Held-out word problems whose template occurs in no training problem; None for other data."""
    temperature: float = 1.0
    """Temperature of ``result``."""
    compute: Sequence[ComputeCurves] = ()
    """Test-time compute curves, if there are any."""
    revision: Mapping[str, str] = field(default_factory=dict)
    """Revision of the repository that wrote the report; empty outside of a repository."""

    @property
    def headline(self) -> Headline:
        """Title and sentences of the run."""
        name = control_name(self.control, self.spent) if self.control is not None else EQUAL
        return make_loop_headline(
            self.result, control=name, further=self.further, temperature=self.temperature
        )

    @property
    def by_temperature(self) -> Table | None:
        """Scores at all temperatures and of baselines; None if there is nothing further."""
        if self.further == FurtherResults():
            return None
        return tables.temperature_table(self.result, self.further, temperature=self.temperature)

    @property
    def limits_of_claim(self) -> tuple[str, ...]:
        """Sentences about the control, and about overlap of held-out and training problems."""
        of_control = control_sentences(self.control, self.spent) if self.control else ()
        problems = self.result.base.num_problems
        shared = (
            number_set_sentence(self.unseen_number_sets, problems),
            template_sentence(self.unseen_templates, problems),
        )
        return (*self.trained_on, *of_control, *filter(None, shared))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Paths of the written files."""

    report: pathlib.Path
    plots: tuple[pathlib.Path, ...]
    data: tuple[pathlib.Path, ...]
    """Data of the plots, as CSV."""


def write_report(source: ReportInput, folder: pathlib.Path) -> ReportFiles:
    """Write report.html, and below ``plots`` the plots as SVG and their data as CSV."""
    drawn = _plots(source)
    report = folder / REPORT_NAME
    write_text(report, render(source, drawn))
    plot_paths = {folder / PLOTS_FOLDER / f"{plot.name}.svg": plot.svg for plot in drawn.values()}
    data_paths = {
        folder / PLOTS_FOLDER / f"{name}.csv": csv_text(rows)
        for name, rows in _data(source).items()
    }
    for path, text in (plot_paths | data_paths).items():
        write_text(path, text)
    return ReportFiles(report=report, plots=tuple(plot_paths), data=tuple(data_paths))


def _plots(source: ReportInput) -> dict[str, Plot]:
    drawn = [
        plots.pass_at_k_plot(source.result.summaries),
        plots.difficulty_plot(source.result.summaries),
        *plots.training_plots(source.training_log, _TRAINING_CURVES),
        *([plots.seconds_plot(source.costs.seconds)] if source.costs.seconds else []),
    ]
    return {plot.name: plot for plot in drawn}


def _data(source: ReportInput) -> dict[str, list[dict[str, object]]]:
    """Rows of the plots, by file name; empty tables are left out."""
    curves = {name: summary.curve for name, summary in source.result.summaries.items()}
    rows: dict[str, list[dict[str, object]]] = {
        "pass_at_k": [
            {"policy": name, "k": k, "value": found.value, "low": found.low, "high": found.high}
            for name, curve in curves.items()
            for k, found in curve.items()
        ],
        "training": [dict(row) for row in source.training_log],
    }
    return {name: table for name, table in rows.items() if table}


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV with a header; missing columns are empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def render(source: ReportInput, drawn: Mapping[str, Plot]) -> str:
    """The page's HTML."""
    result = source.result
    return (
        page_environment(pathlib.Path(__file__).parent)
        .get_template(_TEMPLATE_NAME)
        .render(
            headline=source.headline,
            limits=source.limits_of_claim,
            finding=result.over_control or result.comparison,
            against="control" if result.over_control else "base",
            comparison=result.comparison,
            plots=drawn,
            training_plots=[drawn[name] for name in drawn if name.startswith(TRAINING_PREFIX)],
            tables=_tables(source),
            compute=[(plot_curves(curves), curve_table(curves)) for curves in source.compute],
            examples=pick_examples(
                result.comparison,
                source.base_groups,
                source.trained_groups,
                limit=source.num_examples,
            ),
        )
    )


def _tables(source: ReportInput) -> dict[str, Table]:
    result, comparison = source.result, source.result.comparison
    over, by_temperature = result.over_control, source.by_temperature
    return {
        **({"by_temperature": by_temperature} if by_temperature else {}),
        "scores": tables.score_table(source.result.summaries),
        **({"over_control": tables.paired_table(over, against="control")} if over else {}),
        "paired": tables.paired_table(comparison),
        "compute_spent": tables.run_compute_table(source.spent),
        "split": tables.split_table(comparison),
        "flips": tables.flip_table(comparison, limit=_FLIPS_SHOWN),
        "statuses": tables.status_table(source.result.summaries),
        "costs": tables.cost_table(source.costs),
        "spending": mapping_table("Spending on sampling", source.spending),
        "data": mapping_table("Data card", source.data_counts),
        "overlap": mapping_table("Overlap of train and test", source.overlap),
        "shared": tables.overlap_table(source.shared_runs),
        "lineage": mapping_table("Digests of the run", source.lineage),
        "revision": mapping_table("Revision that wrote this report", source.revision),
    }
