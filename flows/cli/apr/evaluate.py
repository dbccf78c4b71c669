"""`reasonloop apr evaluate` and `trace`."""

import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from flows.cli.options import (
    AT_LEAST_ONE,
    AT_LEAST_ZERO,
    DEFAULT_PARAMS,
    ParamsOptions,
    Temperature,
    read_list,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_evaluation
from flows.run.terminal import say
from pipeline_lib.kinds.line_fields import line_error
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import check_output
from pipeline_lib.study.provenance import provenance

if TYPE_CHECKING:
    from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """Options for threads and their server."""

    first_success: Annotated[
        bool,
        Parameter(
            negative="",
            help="The first child with a result cancels its siblings. Which siblings end before it depends on timing.",
        ),
    ] = False
    url: Annotated[
        str | None,
        Parameter(
            help="OpenAI-compatible server of MODEL, as in http://127.0.0.1:8300/v1; the folder then gives "
            "its tokenizer, window and conditions."
        ),
    ] = None

    def server(self, params: Params, model: pathlib.Path) -> ServeParams | None:
        """The server at the url, with the tokenizer of ``model``; None without a url.

        Raises:
            BadInputError: the url is none.
        """
        if self.url is None:
            return None
        changes = {"engine": "url", "url": self.url, "tokenizer": str(model)}
        try:
            return ServeParams.model_validate(params.serve.model_dump() | changes)
        except ValidationError as error:
            raise line_error(error, where="--url") from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Options for conditions, temperatures and samples."""

    children: Annotated[
        str | None,
        Parameter(
            help="Children per spawn that parallel models are asked for, as in 0,3,5; 0: no condition. Default: "
            "none if the model was trained so, else the most of its training."
        ),
    ] = None
    tokens: Annotated[
        str | None,
        Parameter(
            help="Tokens that serial models are asked for, as in 0,128,256; 0 and default as for --children."
        ),
    ] = None
    temperature: Annotated[str, Parameter(help="Temperatures, as in 0,1; 0 is greedy.")] = "0"
    samples: Annotated[
        int,
        Parameter(
            help="Rollouts of each problem at temperatures above 0; with several, consensus and pass@k as well.",
            validator=AT_LEAST_ONE,
        ),
    ] = 1
    serial_samples: Annotated[
        int | None,
        Parameter(
            help="Those of serial models, whose rollouts draw fewer tokens; default: --samples.",
            validator=AT_LEAST_ONE,
        ),
    ] = None

    def setting(
        self, params: Params, model: pathlib.Path, runtime: RuntimeOptions
    ) -> "EvaluationSetting":
        """The setting of an evaluation; ``model`` has the tokenizer of the server, if there is one.

        Raises:
            BadInputError: a list that is none of numbers.
        """
        from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting  # noqa: PLC0415 - torch is slow

        return EvaluationSetting(
            children=read_list("children", self.children, int, low=0),
            tokens=read_list("tokens", self.tokens, int, low=0),
            temperatures=read_list("temperature", self.temperature, float, low=0),
            samples=self.samples,
            serial_samples=self.serial_samples,
            first_success=runtime.first_success,
            serve=runtime.server(params, model),
            evaluate=params.evaluate,
            seed=params.seed,
            provenance=provenance(params),
        )


DEFAULT_RUNTIME = RuntimeOptions()
DEFAULT_SWEEP = SweepOptions()


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
        Literal["valid", "test"] | None,
        Parameter(
            help="Problems of --data; default: test. Choose conditions and settings on valid."
        ),
    ] = None,
    problems: Annotated[
        pathlib.Path | None,
        Parameter(
            help="Instead of --data: JSON lines with id, numbers and target; or a .json list of objects with "
            "nums and target, or of prompts."
        ),
    ] = None,
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for rollouts.jsonl, metrics.json and report.html.")
    ],
    sweep: SweepOptions = DEFAULT_SWEEP,
    runtime: RuntimeOptions = DEFAULT_RUNTIME,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw rollouts of models on problems, and compare the models problem by problem; a killed command continues.

    Each model is evaluated under each condition of its kind and at each temperature.

    **Examples:**

        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --output reports/apr
        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --split valid --output reports/apr-valid --children 3,5,7,9 --tokens 128,192,256
        reasonloop apr evaluate models/apr-parallel --problems val.json --output reports/apr --children 5 --temperature 0,1 --samples 4
        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --output reports/apr-votes --temperature 0,1 --serial-samples 8
    """
    loaded = params.load()
    from pipeline_lib.systems.apr.evaluation import evaluate as evaluation  # noqa: PLC0415 - torch is slow
    from pipeline_lib.systems.apr.evaluation import problem_source  # noqa: PLC0415 - as above

    folders = [model.resolve() for model in models]
    evaluation.check_models(folders, runtime.url)
    setting = sweep.setting(loaded, folders[0], runtime)
    found = problem_source.read_source(data, problems, split)
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
    runtime: RuntimeOptions = DEFAULT_RUNTIME,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw one rollout, and show its threads as a tree with the tokens of each draw.

    **Examples:**

        reasonloop apr trace models/apr-parallel --problem 3,5,12=27
        reasonloop apr trace models/apr-parallel --problem 3,5,12=27 --children 5 --html trace.html
    """
    loaded = params.load()
    from pipeline_lib.systems.apr.evaluation import evaluate as evaluation  # noqa: PLC0415 - torch is slow

    if html is not None:
        check_output(html)
    folder = model.resolve()
    sweep = SweepOptions(
        children=None if children is None else str(children),
        tokens=None if tokens is None else str(tokens),
        temperature=str(temperature),
    )
    setting = sweep.setting(loaded, folder, runtime)
    row = evaluation.trace_problem(folder, evaluation.parse_problem(problem), setting)
    for line in evaluation.tree_lines(row):
        say(line)
    if html is not None:
        evaluation.write_trace(html, str(folder), row)
        say(str(html))
