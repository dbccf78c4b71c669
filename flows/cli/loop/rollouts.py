"""`reasonloop import-rollouts`: rollouts of other tools, judged and compared with their rewards."""

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions, Workers, read_named
from flows.cli.progress import progress_bar
from flows.cli.tables import print_evaluation
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import check_output
from pipeline_lib.terminal_text import one_line

_SHOWN_DISAGREEMENTS = 10
_TAIL_CHARACTERS = 120


def import_rollouts(  # noqa: PLR0913 - one argument per option
    *files: Annotated[str, Parameter(help="FILE, or NAME=FILE to name it.")],
    output: Annotated[pathlib.Path, Parameter(help="Folder for paths, disagreements and report.")],
    form: Annotated[
        Literal["verl", "trl", "verifiers", "inspect", "lm-eval"] | None,
        Parameter(name="--format", help="Default: recognized, in each file."),
    ] = None,
    kind: Annotated[str, Parameter(help="Of answers, as in lines of `verify`.")] = "math",
    problems: Annotated[
        pathlib.Path | None, Parameter(help="JSON lines: question or id, and the gold to use.")
    ] = None,
    reward: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", help="Its name, to compare; repeatable. Default: the total, else all."
        ),
    ] = (),
    threshold: Annotated[float, Parameter(help="A reward above it says `right`.")] = 0.5,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge rollouts of verl, TRL, verifiers, Inspect or lm-eval, and compare the verdicts with their rewards.

    Writes `paths.jsonl` for `verify` and `evaluate`, in `paths/` the same for each model, step or file,
    `disagreements.jsonl`, `metrics.json` and `report.html`. Accuracies are paired by problem.

    **Examples:**

        reasonloop import-rollouts rollouts/1.jsonl rollouts/2.jsonl --output imported
        reasonloop import-rollouts before=a.eval after=b.eval --problems problems.jsonl --output imported
    """
    if not files:
        raise BadInputError("name at least one file of rollouts")
    check_output(output / "report.html")
    loaded = params.load()
    from pipeline_lib.systems.loop.imports import comparison  # noqa: PLC0415 - scipy is slow

    named = dict(map(_named, files))
    find = comparison.problem_finder(kind, problems)
    lines = comparison.read_lines_of(named, form, find, rewards=reward)
    with progress_bar("judge rollouts") as moved:
        differing = comparison.compare_rollouts(
            lines, output, loaded, threshold=threshold, workers=workers, on_progress=moved
        )
    print_evaluation(output)
    for one in differing[:_SHOWN_DISAGREEMENTS]:
        said = f"{one['reward']} {one['rewards'][one['reward']]:g}, {one['status']}"
        tail = (one["text"] or "")[-_TAIL_CHARACTERS:]
        say(one_line(f"{one['source']}: {said}, {one['extracted']}: ... {tail}"))
    say(f"disagreements: {len(differing)}, {output / comparison.DISAGREEMENTS_NAME}")
    say(f"paths: {output / comparison.PATHS_NAME}")


def _named(given: str) -> tuple[str, pathlib.Path]:
    is_file = "=" not in given or pathlib.Path(given).is_file()
    name, path = (given, given) if is_file else read_named(given, "FILE or NAME=FILE")
    return name, pathlib.Path(path)
