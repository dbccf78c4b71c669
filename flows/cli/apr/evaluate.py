"""`reasonloop apr evaluate` and `trace`."""

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    AT_LEAST_ZERO,
    DEFAULT_PARAMS,
    ParamsOptions,
    Temperature,
    read_list,
    read_set,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_evaluation
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import check_output
from pipeline_lib.study.provenance import provenance

FirstSuccess = Annotated[
    bool,
    Parameter(
        negative="",
        help="The first child with a result cancels its siblings. Which siblings end before it depends on timing.",
    ),
]
Url = Annotated[
    str | None,
    Parameter(
        help="OpenAI-compatible server of MODEL, as in http://127.0.0.1:8300/v1; the folder then gives "
        "its tokenizer, window and conditions."
    ),
]


def evaluate(  # noqa: PLR0913 - one argument per option
    models: Annotated[
        tuple[pathlib.Path, ...], Parameter(help="Folders of `reasonloop apr train`.")
    ],
    /,
    *,
    data: Annotated[
        pathlib.Path | None,
        Parameter(help="Folder of `reasonloop apr generate`."),
    ] = None,
    split: Annotated[
        Literal["valid", "test", "wordings"] | None,
        Parameter(
            help="Problems of --data; default: test. Choose conditions and settings on valid."
        ),
    ] = None,
    problems: Annotated[
        str | None,
        Parameter(
            help="Instead of --data: JSON lines with id, numbers and target, or with id, question and gold; or a .json "
            "list of objects with nums and target, or of prompts. With --dataset: how many of its problems."
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        Parameter(
            help="A whole public data set, for language models: NAME, NAME=FOLDER or NAME=HUB_ID."
        ),
    ] = None,
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for rollouts.jsonl, metrics.json and report.html.")
    ],
    children: Annotated[
        str | None,
        Parameter(
            help="Children per spawn that parallel models are asked for, as in 0,3,5; 0: no condition. Default: "
            "none if the model was trained so, else the most of its training."
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        Parameter(
            help="Tokens that serial models are asked for, as in 0,128,256; 0 and default as for --children."
        ),
    ] = None,
    temperature: Annotated[str, Parameter(help="Temperatures, as in 0,1; 0 is greedy.")] = "0",
    samples: Annotated[
        int,
        Parameter(
            help="Rollouts of each problem at temperatures above 0; with several, consensus and pass@k as well.",
            validator=AT_LEAST_ONE,
        ),
    ] = 1,
    serial_samples: Annotated[
        int | None,
        Parameter(
            help="Rollouts of serial models, which draw fewer tokens; default: --samples.",
            validator=AT_LEAST_ONE,
        ),
    ] = None,
    max_tokens: Annotated[
        int,
        Parameter(
            help="Tokens of one draw of a language model that was not trained on threads.",
            validator=AT_LEAST_ONE,
        ),
    ] = 512,
    first_success: FirstSuccess = False,
    url: Url = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw rollouts of models on problems, and compare the models problem by problem; a killed command continues.

    Each model is evaluated under each condition of its kind and at each temperature.

    **Examples:**

        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --output reports/apr
        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --split valid --output reports/apr-valid --children 3,5,7,9 --tokens 128,192,256
        reasonloop apr evaluate models/apr-parallel --problems val.json --output reports/apr --children 5 --temperature 0,1 --samples 4
        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --output reports/apr-votes --temperature 0,1 --serial-samples 8
        reasonloop apr evaluate models/smollm2 --dataset aime24=DATA/aime24 --problems 10 --output reports/aime
    """
    if dataset is not None and (data is not None or not (problems or "1").isdecimal()):
        raise BadInputError("--dataset: goes without --data, and with a number of --problems")
    count = int(problems) if dataset is not None and problems is not None else None
    loaded = params.load({"evaluate.sets": read_set(dataset, count)})
    from pipeline_lib.systems.apr.evaluation import evaluate as evaluation  # noqa: PLC0415 - torch is slow
    from pipeline_lib.systems.apr.evaluation import plans, problem_source  # noqa: PLC0415 - as above

    folders = [model.resolve() for model in models]
    evaluation.check_models(folders, url)
    setting = plans.EvaluationSetting(
        children=read_list("children", children, int, low=0),
        tokens=read_list("tokens", tokens, int, low=0),
        temperatures=read_list("temperature", temperature, float, low=0),
        samples=samples,
        serial_samples=serial_samples,
        batch_size=loaded.apr.evaluate.batch_size,
        first_success=first_success,
        serve=_server(url, loaded, folders[0]),
        evaluate=loaded.evaluate,
        verify=loaded.verify,
        grammar=loaded.apr.rl.grammar,
        grammar_digest=loaded.apr.rl.code_digest,
        max_tokens=max_tokens,
        seed=loaded.seed,
        provenance=provenance(loaded),
        workers=loaded.execution.workers,
    )
    if dataset is not None:
        found = problem_source.read_data_set(loaded)
    elif params.task is not None and data is None and problems is None:
        found = problem_source.read_task(loaded, "test")
    else:
        file = None if problems is None else pathlib.Path(problems)
        found = problem_source.read_source(data, file, split)
    with progress_bar("apr evaluate") as moved:
        evaluation.evaluate_models(
            {str(model): folder for model, folder in zip(models, folders, strict=True)},
            found,
            output.resolve(),
            setting,
            on_progress=moved,
        )
    print_evaluation(output)
    say(str(output / evaluation.ROLLOUTS_NAME))


def trace(  # noqa: PLR0913 - one argument per option
    model: Annotated[pathlib.Path, Parameter(help="A folder of `reasonloop apr train`.")],
    /,
    *,
    problem: Annotated[str, Parameter(help="Numbers and target, as in 3,5,12=27.")],
    html: Annotated[
        pathlib.Path | None, Parameter(help="File to write the tree to as well.")
    ] = None,
    children: Annotated[
        int | None,
        Parameter(
            help="Children per spawn that a parallel model is asked for; 0: no condition. Default: none if the "
            "model was trained so, else the most of its training.",
            validator=AT_LEAST_ZERO,
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        Parameter(
            help="Tokens that a serial model is asked for; 0 and default as for --children.",
            validator=AT_LEAST_ZERO,
        ),
    ] = None,
    temperature: Temperature = 0.0,
    first_success: FirstSuccess = False,
    url: Url = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw one rollout, and show its threads as a tree with the tokens of each draw.

    **Examples:**

        reasonloop apr trace models/apr-parallel --problem 3,5,12=27
        reasonloop apr trace models/apr-parallel --problem 3,5,12=27 --children 5 --html trace.html
    """
    loaded = params.load()
    from pipeline_lib.systems.apr.evaluation import evaluate as evaluation  # noqa: PLC0415 - torch is slow
    from pipeline_lib.systems.apr.evaluation import plans  # noqa: PLC0415 - as above

    if html is not None:
        check_output(html)
    folder = model.resolve()
    setting = plans.EvaluationSetting(
        children=[] if children is None else [children],
        tokens=[] if tokens is None else [tokens],
        temperatures=[temperature],
        samples=1,
        first_success=first_success,
        serve=_server(url, loaded, folder),
        evaluate=loaded.evaluate,
        verify=loaded.verify,
        seed=loaded.seed,
    )
    row = evaluation.trace_problem(folder, evaluation.parse_problem(problem), setting)
    for line in evaluation.tree_lines(row):
        say(line)
    if html is not None:
        evaluation.write_trace(html, str(folder), row)
        say(str(html))


def _server(url: str | None, params: Params, model: pathlib.Path) -> ServeParams | None:
    """The server at ``url`` with the tokenizer of ``model``; None without a url."""
    if url is None:
        return None
    changes = {"engine": "url", "url": url, "tokenizer": str(model)}
    with errors_at("--url"):
        return ServeParams.model_validate(params.serve.model_dump() | changes)
