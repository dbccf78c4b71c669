"""Soft communication of PRR: alpha 0, .1 and .3 with intervals 1, 2 and 4, on Sudoku 6x6 and on ARC at width 64.

All other params are the defaults. Alpha 0 never communicates, so it is one setting; with three seeds a task has 21
runs. Sudoku has two solutions by default: with one solution (--tasks sudoku6) all settings are near 100 %. ARC is
ARC-AGI-1 on canvases of 6x6, asked for held-out test pairs of the training set: on the evaluation set, models of this
size and duration are always wrong. On these a pilot was right in 11 to 13 % (oracle) after 1,677 steps.

Hours on one core, from .14 CPU s a step: 1.3 for sudoku6-two (21 runs of 3.6 minutes), 1.5 for arc (21 of 4.2), 1.0 for
sudoku6 (21 of 3); 2.8 by default. A run that takes longer than --minutes is stopped at a checkpoint.
The same command goes on: finished trainings and evaluations are reused, interrupted ones resume. Processes with other
--tasks or --seeds may share OUT.

Points and differences from alpha 0 are those of the study: over the problems of all seeds, with these trainings. The
intervals over seeds, by Student's t, are of other trainings too.

    python -m benchmarks.prr_communication run --out OUT --arc ARC-AGI/data
    python -m benchmarks.prr_communication table --out OUT
"""

import argparse
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchmarks.lib.command_line import add_output, make_parser, write_results
from benchmarks.lib.seeds import over_seeds, points
from flows.cli.tables import print_claims, print_table
from pipeline_lib.errors import BudgetReachedError
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.study.pages.page import Page, study_tables, write_page
from pipeline_lib.study.stored import Evaluation, read_evaluation
from pipeline_lib.study.study import ALL, METRICS_NAME, Arm, Contrast, Series, Study, make_study
from pipeline_lib.systems.prr.data.arc_builder import ArcOptions, build_arc
from pipeline_lib.systems.prr.data.arc_source import read_subset
from pipeline_lib.systems.prr.data.synthetic import build_synthetic
from pipeline_lib.systems.prr.evaluation_folder import evaluate_on
from pipeline_lib.systems.prr.training.train import train_on

Cell = tuple[float, int]
"""Alpha and interval."""
NONE: Cell = (0.0, 2)
CELLS: Sequence[Cell] = (NONE, *((alpha, every) for alpha in (0.1, 0.3) for every in (1, 2, 4)))
TASKS: Mapping[str, Sequence[str]] = {
    "sudoku6": ("prr.data={task: sudoku6, versions: 16}",),
    "sudoku6-two": ("prr.data={task: sudoku6-two, versions: 16}", "prr.train.steps=1500"),
    "arc": (
        "prr.model={width: 64, heads: 4, mixer: attention}",
        "prr.train={steps: 1700, batch_size: 12, lr: 0.002, weight_decay: 0.1}",
    ),
}
COMPARED = (
    ("scorer", "accuracy"),
    ("oracle", "accuracy"),
    ("scorer", "any solution"),
    ("branches", "solutions found"),
)
SHOWN = (*COMPARED, ("confidence", "accuracy"), ("scorer", "picks best"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training with its evaluation."""

    out: pathlib.Path
    task: str
    cell: Cell
    seed: int

    @property
    def data(self) -> pathlib.Path:
        """Folder of the puzzles of task and seed."""
        return self.out / "data" / f"{self.task}-{self.seed}"

    def folder(self, kind: str) -> pathlib.Path:
        """Folder of the model or of its evaluation."""
        alpha, interval = self.cell
        return self.out / kind / f"{self.task}-{alpha:g}-{interval}-{self.seed}"

    def params(self, changes: Sequence[str]) -> Params:
        """The defaults with the task, the cell and ``changes``."""
        alpha, interval = self.cell
        own = (f"prr.model.alpha={alpha}", f"prr.model.comm_interval={interval}")
        return load_params(overrides=[*TASKS[self.task], *own, f"seed={self.seed}", *changes])


def run(job: Job, arc: pathlib.Path | None, *, minutes: float, changes: Sequence[str]) -> None:
    """Train and evaluate, or go on; a training that reaches its time limit is not evaluated."""
    params = job.params(changes)
    if job.task != "arc":
        build_synthetic(params.prr.data, job.data, seed=job.seed)
    elif arc is None:
        raise SystemExit("--tasks arc needs --arc, the folder data of ARC-AGI-1")
    else:
        subsets = [read_subset(arc, name) for name in ("training", "evaluation")]
        options = ArcOptions(test_set="training", num_aug=8, max_side=6, seed=job.seed)
        build_arc(subsets, options, job.data)
    model = job.folder("models")
    try:
        train_on(job.data, model, params.prr, seed=job.seed, max_seconds=60 * minutes)
    except BudgetReachedError as error:
        print(f"{model.name}: {error}", flush=True)
        return
    evaluate_on(job.data, [model], job.folder("evaluations"), params)
    print(f"{model.name}: finished", flush=True)


def series_of(cell: Cell, by_seed: Mapping[int, Evaluation]) -> Iterator[Series]:
    """The shown measures of a setting, over the problems of all seeds."""
    for base, measure in SHOWN:
        values = {
            f"{seed} {' '.join(key)}": value
            for seed, evaluation in by_seed.items()
            for one in evaluation.series
            if (one.arm, one.measure, one.subset) == (base, measure, ALL)
            for key, value in one.values.items()
        }
        if not values:
            continue
        settings = {"alpha": cell[0], "interval": cell[1]} if cell != NONE else {"alpha": 0.0}
        arm = Arm(base=base, settings=settings, upper_bound=base == "oracle")
        names = ("communication", base, measure, *map(str, cell))
        yield Series(arm=arm, measure=measure, values=values, seed_names=names)


def study_of(task: str, found: Mapping[Cell, Mapping[int, Evaluation]]) -> Study:
    """Every setting minus alpha 0 where both have the same seeds, and the differences over seeds as claims."""
    series = {cell: list(series_of(cell, by_seed)) for cell, by_seed in found.items()}
    without = {(one.arm.base, one.measure): one for one in series.pop(NONE, [])}
    compared = [
        Contrast(
            candidate=one,
            reference=without[one.arm.base, one.measure],
            seed_names=(*one.seed_names, 0),
            family=one.measure,
        )
        for candidates in series.values()
        for one in candidates
        if (one.arm.base, one.measure) in without.keys() & set(COMPARED)
    ]
    evaluate = load_params().evaluate
    listed = [*without.values(), *(one for of_cell in series.values() for one in of_cell)]
    study = make_study("prr", listed, compared, evaluate=evaluate, seed=7, provenance={})
    runs = sum(map(len, found.values()))
    return study.with_claims([f"{task}: {runs} runs", *map(_over_seeds, compared)])


def _over_seeds(one: Contrast) -> str:
    """The difference of each seed, and their mean with its interval."""
    shared: dict[str, list[float]] = {}
    for problem in one.candidate.values.keys() & one.reference.values.keys():
        difference = one.candidate.values[problem] - one.reference.values[problem]
        shared.setdefault(problem.split(" ")[0], []).append(difference)
    by_seed = [sum(each) / len(each) for _, each in sorted(shared.items())]
    interval = over_seeds(by_seed)
    settings = " ".join(f"{name} {value:g}" for name, value in one.candidate.arm.settings.items())
    each = ", ".join(f"{100 * value:+.1f}" for value in by_seed)
    mean = "one seed" if interval is None else points(interval)
    return f"{settings} minus alpha 0, {one.candidate.arm.base} {one.candidate.measure}: {each}; over seeds {mean}"


def main() -> None:
    """Run what is missing, or print and write the tables."""
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="train and evaluate what is missing")
    runner.add_argument("--arc", type=pathlib.Path, help="the folder data of ARC-AGI-1")
    runner.add_argument("--minutes", type=float, default=15, help="most minutes of a training")
    runner.add_argument("--set", nargs="+", default=[], help="params, as KEY=VALUE")
    shower = commands.add_parser("table", help="the study of all finished runs")
    add_output(shower)
    for command in (runner, shower):
        command.add_argument("--out", type=pathlib.Path, required=True)
        command.add_argument("--tasks", nargs="+", choices=TASKS, default=["sudoku6-two", "arc"])
        command.add_argument("--seeds", nargs="+", type=int, default=[7, 8, 9])
    options = parser.parse_args()
    if options.command == "run":
        for job in _jobs(options):
            run(job, options.arc, minutes=options.minutes, changes=options.set)
        return
    studies = []
    for task in options.tasks:
        found: dict[Cell, dict[int, Evaluation]] = {}
        for job in _jobs(options):
            folder = job.folder("evaluations")
            if job.task == task and (folder / METRICS_NAME).is_file():
                found.setdefault(job.cell, {})[job.seed] = read_evaluation(folder)
        study = study_of(task, found)
        for table in study_tables(study):
            print_table(table)
        print_claims(study)
        write_page(options.out / f"{task}.html", study, Page(title="soft communication"))
        studies.append(asdict(study))
    write_results(options.output, studies)


def _jobs(options: argparse.Namespace) -> list[Job]:
    out = options.out.resolve()
    return [
        Job(out=out, task=task, cell=cell, seed=seed)
        for seed in options.seeds
        for task in options.tasks
        for cell in CELLS
    ]


if __name__ == "__main__":
    main()
