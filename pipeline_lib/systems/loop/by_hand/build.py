"""Training data from a JSON-lines file of paths, outside of a workspace."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from pipeline_lib.params.train import Method
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.worked import divide_worked
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.splits import checked_splits
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store.files import check_output, write_json_lines, write_text
from pipeline_lib.train.rows.builders import MAIN_TABLE, WARM_START_TABLE, BuildContext, build
from pipeline_lib.verify import VERIFIER_VERSION
from pipeline_lib.verify.lines import groups_from_lines, problem_line


def warm_start_file(rows: pathlib.Path) -> pathlib.Path:
    """The file of SFT rows for a warm start, beside the rows of an online method."""
    return rows.with_suffix(".warm_start.jsonl")


def build_file(  # noqa: PLR0913 - one argument per option
    source: pathlib.Path,
    output: pathlib.Path,
    method: Method,
    params: Params,
    *,
    model: str | None = None,
    worked_solutions: bool = False,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Mapping[str, float], int, pathlib.Path]:
    """Judge the paths of ``source``, write the rows that ``method`` trains on, and their data card.

    Each row also has the question and the gold of its problem, as the lines of ``source`` do. For an online method, SFT
    rows for a warm start are written beside them. Prompts are written by the chat format of ``model``. ``worked_solutions`` adds
    the worked solutions of the bootstrap split to the SFT rows, as a run does with ``build.worked_solutions``.

    Returns:
        Counts of the data, number of rows, and the data card.

    Raises:
        BadInputError: a line of ``source`` cannot be read, or a file cannot be written.
    """
    card = output.with_suffix(".card.md")
    warm_start = warm_start_file(output)
    for written in (output, card, warm_start):
        check_output(written, source=source)
    groups = groups_from_lines(source, params.verify, workers=workers, on_progress=on_progress)
    chat_format = None
    if model is not None:
        from pipeline_lib.engines.pretrained import load_chat_format  # noqa: PLC0415 - transformers is slow

        chat_format = load_chat_format(model)
    worked = _worked(params) if worked_solutions else ()
    data = build(
        method,
        groups,
        BuildContext(
            params=params.build,
            render=lambda problem: render(problem, chat_format),
            seed=params.seed,
            verifier_version=VERIFIER_VERSION,
            worked=solution_rows(worked, chat_format),
        ),
    )
    asked = {one.id: problem_line(one) for one in [*worked, *(group.problem for group in groups)]}
    files = {MAIN_TABLE[method]: output, WARM_START_TABLE: warm_start}
    for table, rows in data.rows_by_table.items():
        write_json_lines(files[table], ({**row, **asked[row["problem_id"]]} for row in rows))
    write_text(card, data.card)
    rows = data.rows_by_table[MAIN_TABLE[method]]
    return data.counts, len(rows), card


def _worked(params: Params) -> Sequence[Problem]:
    """The worked problems that base and control are trained on."""
    return divide_worked(
        checked_splits(params.prepare, seed=params.seed).bootstrap,
        validation_fraction=params.bootstrap.validation_fraction,
        seed=params.seed,
    ).train
