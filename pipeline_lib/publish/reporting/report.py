"""The report of the main job: report.html, plots as SVG, and their data as CSV."""

import csv
import io
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.problems.overlap import OverlapSample
from pipeline_lib.publish.reporting import plots, tables
from pipeline_lib.publish.reporting.control_text import (
    control_sentences,
    shared_sentence,
)
from pipeline_lib.publish.reporting.curves import NOTE
from pipeline_lib.publish.reporting.examples import pick_examples
from pipeline_lib.publish.reporting.plots import TrainingRow
from pipeline_lib.publish.reporting.run_compute import RunCompute, StageCosts
from pipeline_lib.records import Group
from pipeline_lib.store.files import write_text
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
from pipeline_lib.study.pages.tables import mapping_table
from pipeline_lib.study.policies import Flips, PathCounts
from pipeline_lib.study.study import ALL, Point, Study, ValueKey
from pipeline_lib.train.control_report import ControlReport

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """Content of the report."""

    study: Study
    """With its claims."""
    values: Mapping[ValueKey, Mapping[str, float]]
    """Of `read_values`."""
    base: str
    """Name of the arm at the temperature of sampling; likewise the next two."""
    policy: str
    control_arm: str | None
    """None if the run had no control."""
    counts: Mapping[str, PathCounts]
    """By policy and temperature."""
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
    groups: Mapping[str, Iterable[Group]]
    """Judged paths by problem of ``base``, ``control`` and ``trained``; a table is read anew on each pass."""
    num_examples: int
    shared_runs: Sequence[OverlapSample] = ()
    """Word runs shared by a test and a train question, for manual inspection."""
    trained_on: Sequence[str] = ()
    """Of `problems.trained`, about the policies and the held-out problems."""
    unseen_templates: int | None = None
    """Held-out word problems whose template occurs in no training problem; None for other data."""
    compute: Mapping[str, Study] = field(default_factory=dict)
    """Studies of test-time compute by policy."""
    revision: Mapping[str, str] = field(default_factory=dict)
    """Revision of the repository that wrote the report; empty outside of a repository."""

    @property
    def num_problems(self) -> int:
        """Problems with a score of the base."""
        return self.study.point(self.base, "pass@1").n

    @property
    def flips(self) -> Flips:
        """Problems that the policy gained and lost against the base."""
        base, policy = (self.values[arm, "pass@1", ALL] for arm in (self.base, self.policy))
        return Flips.between(base, policy)

    @property
    def limits_of_claim(self) -> tuple[str, ...]:
        """Sentences about the control, and about overlap of held-out and training problems."""
        of_control = control_sentences(self.control, self.spent) if self.control else ()
        shared = (
            shared_sentence("numbers", self.unseen_number_sets, self.num_problems),
            shared_sentence("template", self.unseen_templates, self.num_problems),
        )
        return (*self.trained_on, *of_control, *filter(None, shared))

    @property
    def curves(self) -> dict[str, list[Point]]:
        """pass@k by policy at the temperature of sampling, by growing k."""
        arms = [one for one in (self.base, self.control_arm, self.policy) if one is not None]
        return {
            arm: [
                one
                for one in self.study.points
                if one.arm == arm and one.subset == ALL and one.measure.startswith("pass@")
            ]
            for arm in arms
        }


def write_report(source: ReportInput, folder: pathlib.Path) -> pathlib.Path:
    """Write report.html, whose path is returned, and below ``plots`` the plots as SVG and their data as CSV."""
    training = plots.training_plots(source.training_log, _TRAINING_CURVES)
    curve = plots.pass_at_k_plot(source.curves)
    seconds = [plots.seconds_plot(source.costs.seconds)] if source.costs.seconds else []
    page = Page(
        title="the verified loop",
        paper=PAPER,
        notes=[_SCORES],
        plots=[curve],
        sections=list(_sections(source, training, seconds)),
        examples=pick_examples(
            source.flips,
            source.groups["base"],
            source.groups["trained"],
            limit=source.num_examples,
        ),
    )
    report = folder / REPORT_NAME
    write_page(report, source.study, page)
    place = folder / PLOTS_FOLDER
    drawn = {place / f"{one.name}.svg": one.svg for one in (curve, *training, *seconds)}
    data = {place / f"{name}.csv": csv_text(rows) for name, rows in _data(source).items()}
    for path, text in (drawn | data).items():
        write_text(path, text)
    return report


def _sections(
    source: ReportInput, training: Sequence[Plot], seconds: Sequence[Plot]
) -> Iterator[Section]:
    spent = tables.run_compute_table(source.spent)
    title = "Held-out problems" if source.control is None else "Control"
    yield Section(title=title, notes=source.limits_of_claim, tables=[spent])
    if training:
        yield Section(title="Training", plots=training)
    for study in source.compute.values():
        yield Section(
            title=study.system.capitalize(),
            notes=[NOTE],
            tables=study_tables(study),
            plots=cost_figures(study),
        )
    flips = tables.flip_table(source.flips, limit=_FLIPS_SHOWN)
    yield Section(title="Paths", tables=[tables.status_table(source.counts), flips])
    yield Section(
        title="Time and tokens",
        tables=[
            tables.cost_table(source.costs),
            mapping_table("Spending on sampling", source.spending),
        ],
        plots=seconds,
    )
    shared = [tables.overlap_table(source.shared_runs)] if source.shared_runs else []
    yield Section(
        title="Data",
        tables=[
            mapping_table("Data card", source.data_counts),
            mapping_table("Overlap of train and test", source.overlap),
            *shared,
        ],
    )
    revision = [mapping_table("Revision that wrote this report", source.revision)]
    yield Section(
        title="Lineage",
        tables=[
            mapping_table("Digests of the run", source.lineage),
            *(revision if source.revision else []),
        ],
    )


def _data(source: ReportInput) -> dict[str, list[dict[str, object]]]:
    """Rows of the plots, by file name; empty tables are left out."""
    rows: dict[str, list[dict[str, object]]] = {
        "pass_at_k": [
            {
                "policy": name,
                "k": int(one.measure.removeprefix("pass@")),
                "value": one.value,
                "low": one.low,
                "high": one.high,
            }
            for name, points in source.curves.items()
            for one in points
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
