"""`reasonloop classmate run` and `show`."""

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators
from rich.table import Table

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    DEFAULT_SEEDS,
    ParamsOptions,
    RunOptions,
    SeedOptions,
)
from flows.cli.orchestrated import run_whole
from flows.cli.seeds import run_each
from flows.cli.tables import print_evaluation
from flows.run.terminal import console, say
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.classmate.stages import CLASSMATE

if TYPE_CHECKING:
    from pipeline_lib.systems.classmate.draw_files import AskedPrefix, DrawRecord


def run(
    *,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
    seeds: SeedOptions = DEFAULT_SEEDS,
) -> None:
    """Train with peers and without from one base, and compare both, as one flow in a workspace.

    Where no peers are named, small ones are made. Finished stages are reused, so the same command resumes a
    broken run.

    **Examples:**

        reasonloop classmate run
        reasonloop classmate run --profile classmate-smoke --workspace /tmp/trial
        reasonloop classmate run --workspace /tmp/blind --set classmate.bonus=blind
        reasonloop classmate run --workspace /tmp/trial --seeds 7,8,9
    """
    run_each(CLASSMATE.name, options, params, seeds, _run)


def _run(root: pathlib.Path, params: Params) -> None:
    folder = run_whole(CLASSMATE, root, params).workspace.classmate.reports
    print_evaluation(folder)


def show(
    draws: Annotated[
        pathlib.Path,
        Parameter(
            help="Folder of draws: data/classmate/draws of a workspace, or OUTPUT.draws of `train`.",
            validator=validators.Path(exists=True, file_okay=False),
        ),
    ],
    /,
    *,
    step: Annotated[
        int | None,
        Parameter(
            help="Updates before the draw, from 0: line n of training_log.jsonl is --step n-1. Default: the last."
        ),
    ] = None,
    problem: Annotated[
        str | None, Parameter(help="Id of the problem; default: the first of the draw.")
    ] = None,
) -> None:
    """Print prefixes, continuations and scores of a draw of a training with peers.

    **Examples:**

        reasonloop classmate show data/classmate/draws
        reasonloop classmate show data/classmate/draws --step 40 --problem countdown-2.3.5.9-24
    """
    draw = _read_draw(draws, step)
    ids = list(dict.fromkeys(path.problem_id for path in draw.paths))
    if not ids:
        raise BadInputError(f"step {draw.step}: the draw has no paths; give another --step")
    chosen = problem or ids[0]
    if chosen not in ids:
        raise BadInputError(f"--problem {chosen}: is not in this draw; there are {', '.join(ids)}")
    say(f"step {draw.step}, problem {chosen}")
    for name, value in draw.figures.items():
        say(f"  {name} {value:.3f}")
    paths = [path for path in draw.paths if path.problem_id == chosen]
    asked = {one.prefix: one for one in draw.prefixes if one.problem_id == chosen}
    table = Table("path", "prefix", "peer", "continuation", "score", box=None, pad_edge=False)
    for place, path in enumerate(paths, 1):
        numbers = ", ".join(
            f"{name} {'none' if value is None else f'{value:g}'}"
            for name, value in (("base", path.base), ("bonus", path.bonus), ("reward", path.reward))
        )
        table.add_row(str(place), path.completion, "", numbers, "")
        for row in _continuation_rows(None if path.prefix is None else asked.get(path.prefix)):
            table.add_row("", *row)
    console.print(table, markup=False)


def _read_draw(folder: pathlib.Path, step: int | None) -> "DrawRecord":
    """A draw of the training that was last written to, whose folder is printed."""
    from pipeline_lib.systems.classmate.draw_files import draw_files, read_draw  # noqa: PLC0415 - after the help

    inner = [path for path in folder.iterdir() if path.is_dir()]
    trainings = [files for place in (folder, *inner) if (files := dict(draw_files(place)))]
    if not trainings:
        raise BadInputError(f"{folder}: has no draws; give data/classmate/draws of a workspace")
    files = max(trainings, key=lambda own: max(path.stat().st_mtime for path in own.values()))
    if step is not None and step not in files:
        raise BadInputError(f"--step {step}: is not kept; there are {min(files)} to {max(files)}")
    path = files[max(files) if step is None else step]
    draw = read_draw(path)
    say(f"training {path.parent}")
    return draw


def _continuation_rows(asked: "AskedPrefix | None") -> Iterator[tuple[str, str, str, str]]:
    if asked is None:
        return
    for peer, continuations in asked.continuations.items():
        for one in continuations:
            score = one.failure or ("right" if one.right else "wrong")
            yield asked.prefix, peer, one.text, score
