"""`reasonloop benchmark`: pass@k of any model on whole data sets."""

import pathlib
from typing import Annotated

from cyclopts import Parameter, validators

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    EngineOption,
    ParamsOptions,
    read_list,
    read_sets,
)
from flows.cli.orchestrated import orchestrated
from flows.cli.tables import print_evaluation
from pipeline_lib.engines.known.table import check_installed, engine_named
from pipeline_lib.engines.running_engine import attach
from pipeline_lib.params.whole import Params


def benchmark(  # noqa: PLR0913 - one argument per option
    model: Annotated[
        str,
        Parameter(
            help="A Hugging Face folder or hub id, or the address of a running server, as in http://host:8000/v1."
        ),
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
    at_url = model.startswith(("http://", "https://"))
    loaded = params.load(
        {
            "evaluate.sets": read_sets(dataset, problems),
            "evaluate.ks": [*read_list("k", k, int, low=1)] or None,
            "evaluate.num_paths": num_paths,
            "serve.engine": "url" if at_url else engine,
            "serve.url": model if at_url else None,
        }
    )
    name = model
    if engine_named(loaded.serve.engine).is_external:
        name, loaded = _served(loaded, None if at_url else model)
    from pipeline_lib.systems.loop.benchmark import BENCHMARK  # noqa: PLC0415 - scipy is slow

    root = output.resolve()
    with orchestrated(BENCHMARK, root, loaded) as run:
        from flows.benchmark import run_benchmark  # noqa: PLC0415 - see `orchestrated`

        run_benchmark(run, name)
    print_evaluation(root)


def _served(params: Params, name: str | None) -> tuple[str, Params]:
    """The name of the model at ``serve.url``, and the params with it.

    Args:
        params: with the address.
        name: None: ``serve.model``, or the only model there.

    Raises:
        BadInputError: there is no address, the model is not served, or it is not named while several are.
        ReasonloopError: the server does not answer.
    """
    serve = params.serve.model_copy(update={"model": name or params.serve.model})
    check_installed(serve)
    name = attach(serve, by_chat=serve.tokenizer is None).endpoint.model
    return name, params.model_copy(update={"serve": serve.model_copy(update={"model": name})})
