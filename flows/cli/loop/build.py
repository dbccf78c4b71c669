"""`reasonloop build`: training data from a JSON-lines file of paths."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions, Workers
from flows.cli.progress import progress_bar
from flows.cli.tables import print_counts
from flows.run.terminal import say
from pipeline_lib.params.train import Method
from pipeline_lib.systems.loop.build_file import build_file


def build(
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    method: Annotated[Method, Parameter(help="What the data is for.")],
    output: Annotated[
        pathlib.Path, Parameter(help="JSON-lines file to write; a data card is put beside it.")
    ],
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and build training data from them.

    **Example:**

        reasonloop build paths.jsonl --method dpo --output pairs.jsonl
    """
    loaded = params.load()
    with progress_bar(f"judge {source.name}") as moved:
        built = build_file(source, output, method, loaded, workers=workers, on_progress=moved)
    print_counts(built.data.counts)
    say(f"{built.num_rows} rows: {output}\ndata card: {built.card}")
