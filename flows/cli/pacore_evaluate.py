"""`reasonloop pacore evaluate`."""

import pathlib
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    Engine,
    ParamsOptions,
    Workers,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_table
from flows.terminal import PlainConsole

console = PlainConsole()


def evaluate(
    models: Annotated[
        tuple[str, ...],
        Parameter(help="Hugging Face folders or hub ids; at a url, one model's name there."),
    ],
    /,
    *,
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for metrics.json, report.html and the trials.")
    ],
    problems: Annotated[
        int | None, Parameter(help="How many test problems.", validator=AT_LEAST_ONE)
    ] = None,
    engine: Annotated[
        Engine | None, Parameter(help="Rollout engine; default: serve.engine of the params file.")
    ] = None,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Compare synthesis with votes on the test problems of a data set; a killed evaluation continues.

    Each strategy of `pacore.evaluate` is compared with the best vote that draws as many tokens, reads and draws
    as many, or has as long a critical path.

    **Examples:**

        reasonloop pacore evaluate models/smollm2 --output reports/pacore --profile smol --problems 60
        reasonloop pacore evaluate models/base models/pacore --output reports/pacore --profile smol
    """
    more = [f"prepare.test_problems={problems}"] if problems is not None else []
    more += [f"serve.engine={engine}"] if engine is not None else []
    loaded = params.load(*more)
    from pipeline_lib.collaborative.evaluation import evaluate as evaluation  # noqa: PLC0415 - scipy is slow
    from pipeline_lib.collaborative.evaluation import page  # noqa: PLC0415

    with progress_bar(console, "pacore evaluate") as moved:
        found = evaluation.evaluate_models(
            models, output, loaded, workers=workers, on_progress=moved
        )
    for result in found.results:
        print_table(console, page.point_table(result))
        print_table(console, page.against_table(result))
        print_table(console, page.last_call_table(result))
        for sentence in page.headline(result):
            console.print(sentence, markup=False, soft_wrap=True)
    for path in (found.metrics, found.report):
        console.print(str(path), markup=False, soft_wrap=True)
