"""`reasonloop overlap`: training questions that share text with an evaluation set."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from flows.cli.options import read_named
from flows.run.terminal import console, say
from pipeline_lib.problems.loading import load_evaluation_set
from pipeline_lib.problems.overlap import OverlapReport, overlap_report
from pipeline_lib.records import Problem
from pipeline_lib.store.files import check_output, write_json
from pipeline_lib.store.shards import iter_table
from pipeline_lib.store.workspace import Workspace

_TRAINED_ON = ("train", "bootstrap")
_OWN = "held-out problems of this run"


def overlap(
    *against: Annotated[
        str, Parameter(help="An evaluation set as NAME=FOLDER, as in gsm8k=data/gsm8k.")
    ],
    workspace: Annotated[pathlib.Path, Parameter(help="Folder of the run.")] = pathlib.Path(),
    output: Annotated[
        pathlib.Path | None,
        Parameter(help="JSON file to write; default: reports/overlap.json of the workspace."),
    ] = None,
) -> None:
    """Compare the training questions of a run with evaluation sets by shared 13-grams of words.

    The run's own held-out problems are always among the sets. A shared 13-gram is often only a shared
    theme, so the words are written out for review.

    **Example:**

        reasonloop overlap gsm8k=data/gsm8k math=data/math500 aime=data/aime25 --workspace /tmp/trial
    """
    place = Workspace(workspace.resolve())
    target = output or place.reports / "overlap.json"
    check_output(target)
    sets = {_OWN: _stored(place, ("test",)), **dict(map(_loaded, against))}
    train = _stored(place, _TRAINED_ON)
    reports = {name: overlap_report(train, problems) for name, problems in sets.items()}
    write_json(target, {name: dataclasses.asdict(found) for name, found in reports.items()})
    _print(reports)
    say(f"shared words: {target}")


def _stored(place: Workspace, splits: Sequence[str]) -> list[Problem]:
    return [Problem.from_row(row) for split in splits for row in iter_table(place.problems(split))]


def _loaded(named: str) -> tuple[str, list[Problem]]:
    name, source = read_named(named, "NAME=FOLDER, as in gsm8k=data/gsm8k")
    return named, load_evaluation_set(name, source)


def _print(reports: Mapping[str, OverlapReport]) -> None:
    table = Table("evaluation set", "questions", "touched", "train questions", "touched", box=None)
    for name, found in reports.items():
        counts = (found.num_test, found.touched_test, found.num_train, found.touched_train)
        table.add_row(name, *map(str, counts))
    console.print(table, markup=False)
