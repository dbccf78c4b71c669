"""Training data from a JSON-lines file of paths, outside of a workspace."""

import pathlib
from collections.abc import Callable, Mapping

from pipeline_lib.params.train import Method
from pipeline_lib.params.whole import Params
from pipeline_lib.sampling.prompts import render
from pipeline_lib.store.files import check_output, write_json_lines, write_text
from pipeline_lib.train.rows.builders import MAIN_TABLE, BuildContext, build
from pipeline_lib.verify import VERIFIER_VERSION
from pipeline_lib.verify.lines import groups_from_lines


def build_file(
    source: pathlib.Path,
    output: pathlib.Path,
    method: Method,
    params: Params,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Mapping[str, float], int, pathlib.Path]:
    """Judge the paths of ``source``, write the rows that ``method`` trains on, and their data card.

    Returns:
        Counts of the data, number of rows, and the data card.

    Raises:
        BadInputError: a line of ``source`` cannot be read, or a file cannot be written.
    """
    card = output.with_suffix(".card.md")
    for written in (output, card):
        check_output(written, source=source)
    groups = groups_from_lines(source, params.verify, workers=workers, on_progress=on_progress)
    data = build(
        method,
        groups,
        BuildContext(
            params=params.build,
            render=lambda problem: render(problem, None),
            seed=params.seed,
            verifier_version=VERIFIER_VERSION,
        ),
    )
    rows = data.rows_by_table[MAIN_TABLE[method]]
    write_json_lines(output, rows)
    write_text(card, data.card)
    return data.counts, len(rows), card
