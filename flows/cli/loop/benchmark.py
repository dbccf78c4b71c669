"""`reasonloop benchmark`: pass@k of any model on whole data sets."""

import pathlib
from typing import Annotated

from cyclopts import Parameter, validators

from flows.cli.options import (
    ANY_MODEL,
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    EngineOption,
    ParamsOptions,
    read_list,
    read_sets,
)
from flows.cli.orchestrated import orchestrated
from flows.cli.serving import with_served_model
from flows.cli.tables import print_evaluation


def benchmark(  # noqa: PLR0913 - one argument per option
    model: Annotated[
        str,
        Parameter(help=ANY_MODEL),
    ],
    /,
    *,
    dataset: Annotated[
        str,
        Parameter(
            help="Names of data sets, separated by commas; NAME=FOLDER or NAME=HUB_ID for another source than the one "
            "where it is published."
        ),
    ],
    output: Annotated[
        pathlib.Path,
        Parameter(
            help="Folder for metrics.json, report.html, paths and verdicts.",
            validator=validators.Path(file_okay=False),
        ),
    ],
    k: Annotated[str | None, Parameter(help="Default: evaluate.ks, as in 1,4.")] = None,
    num_paths: Annotated[
        int | None,
        Parameter(help="Paths per problem; default: evaluate.num_paths.", validator=AT_LEAST_ONE),
    ] = None,
    problems: Annotated[
        int | None,
        Parameter(help="How many of each data set; default: all.", validator=AT_LEAST_ONE),
    ] = None,
    engine: EngineOption = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Sample, judge and print pass@k with intervals of a model on data sets; the same command resumes.

    A data set is its test split, or the whole if it has none. With several data sets a server is started once.

    **Examples:**

        reasonloop benchmark HuggingFaceTB/SmolLM2-135M-Instruct --dataset aime24,humaneval --output bench --profile smol
        reasonloop benchmark models/policy --dataset math500=data/math500 --k 1,4 --problems 100 --output bench
        reasonloop benchmark http://host:8000/v1 --dataset gsm8k --k 1 --num-paths 1 --output bench
    """
    loaded = params.load(
        {
            "evaluate.sets": read_sets(dataset, problems),
            "evaluate.ks": [*read_list("k", k, int, low=1)] or None,
            "evaluate.num_paths": num_paths,
            "serve.engine": engine,
        }
    )
    name, loaded = with_served_model(loaded, model)
    from pipeline_lib.systems.loop.benchmark import BENCHMARK  # noqa: PLC0415 - scipy is slow

    root = output.resolve()
    with orchestrated(BENCHMARK, root, loaded) as run:
        from flows.benchmark import run_benchmark  # noqa: PLC0415 - see `orchestrated`

        run_benchmark(run, name)
    print_evaluation(root)
