"""`reasonloop apr evaluate` and `trace`."""

import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from flows.cli.options import AT_LEAST_ONE, DEFAULT_PARAMS, ParamsOptions
from flows.cli.progress import progress_bar
from flows.cli.tables import print_table
from flows.terminal import PlainConsole
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.whole import Params
from pipeline_lib.storage.files import check_output

if TYPE_CHECKING:
    from pipeline_lib.adaptive.evaluation.evaluate import EvaluationSetting

console = PlainConsole()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ThreadOptions:
    """Options for conditions, temperature and server."""

    children: Annotated[
        int | None,
        Parameter(
            help="Children per spawn that parallel models are asked for; default: the most of their training.",
            validator=AT_LEAST_ONE,
        ),
    ] = None
    tokens: Annotated[
        int | None,
        Parameter(
            help="Tokens that serial models are asked for; default: the most of their training.",
            validator=AT_LEAST_ONE,
        ),
    ] = None
    temperature: Annotated[
        float, Parameter(help="0 is greedy.", validator=validators.Number(gte=0))
    ] = 0.0
    first_success: Annotated[
        bool,
        Parameter(negative="", help="The first child with a result cancels its siblings."),
    ] = False
    url: Annotated[
        str | None,
        Parameter(
            help="OpenAI-compatible server of MODEL, as in http://127.0.0.1:8300/v1; the folder then gives "
            "its tokenizer, window and conditions."
        ),
    ] = None

    def setting(self, params: Params, model: pathlib.Path, *, samples: int) -> "EvaluationSetting":
        """The setting of an evaluation; ``model`` has the tokenizer of the server, if there is one."""
        from pipeline_lib.adaptive.evaluation.evaluate import EvaluationSetting  # noqa: PLC0415 - torch is slow

        return EvaluationSetting(
            children=self.children,
            tokens=self.tokens,
            temperature=self.temperature,
            samples=samples,
            first_success=self.first_success,
            serve=self._server(params, model),
            evaluate=params.evaluate,
            seed=params.seed,
        )

    def _server(self, params: Params, model: pathlib.Path) -> ServeParams | None:
        if self.url is None:
            return None
        changes = {"engine": "url", "url": self.url, "model": None, "tokenizer": str(model)}
        return ServeParams.model_validate(params.serve.model_dump() | changes)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options for the source of problems."""

    data: Annotated[
        pathlib.Path | None,
        Parameter(help="Folder of `reasonloop apr generate`; its test problems are used."),
    ] = None
    problems: Annotated[
        pathlib.Path | None,
        Parameter(
            help="Instead of --data: JSON lines with id, numbers and target; or a .json list of objects with "
            "nums and target, or of prompts."
        ),
    ] = None


DEFAULT_THREADS = ThreadOptions()
DEFAULT_SOURCE = SourceOptions()


def evaluate(
    models: Annotated[
        tuple[pathlib.Path, ...], Parameter(help="Folders of `reasonloop apr train`.")
    ],
    /,
    *,
    source: SourceOptions = DEFAULT_SOURCE,
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for rollouts.jsonl, metrics.json and report.html.")
    ],
    samples: Annotated[
        int, Parameter(help="Rollouts of each problem.", validator=AT_LEAST_ONE)
    ] = 1,
    threads: ThreadOptions = DEFAULT_THREADS,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw rollouts of models on problems, and compare the models problem by problem; a killed command continues.

    **Examples:**

        reasonloop apr evaluate models/apr-parallel models/apr-serial --data data/apr --output reports/apr
        reasonloop apr evaluate models/apr-parallel --problems val.json --output reports/apr --children 5 --temperature 1 --samples 4
    """
    loaded = params.load()
    from pipeline_lib.adaptive.evaluation import evaluate as evaluation  # noqa: PLC0415 - torch is slow
    from pipeline_lib.adaptive.evaluation import page, problem_source  # noqa: PLC0415 - as above

    folders = [model.resolve() for model in models]
    evaluation.check_models(folders, threads.url)
    found, style = problem_source.read_source(source.data, source.problems)
    with progress_bar(console, "apr evaluate") as moved:
        evaluated = evaluation.evaluate_models(
            {str(folder): folder for folder in folders},
            found,
            output.resolve(),
            threads.setting(loaded, folders[0], samples=samples),
            style=style,
            on_progress=moved,
        )
    print_table(console, page.accuracy_table(evaluated.models))
    print_table(console, page.token_table(evaluated.models))
    if evaluated.paired:
        print_table(console, page.paired_table(evaluated.paired))
    for name in (evaluation.METRICS_NAME, evaluation.ROLLOUTS_NAME, evaluation.REPORT_NAME):
        _say(str(output / name))


def trace(
    model: Annotated[pathlib.Path, Parameter(help="A folder of `reasonloop apr train`.")],
    /,
    *,
    problem: Annotated[str, Parameter(help="Numbers and target, as in 3,5,12=27.")],
    html: Annotated[
        pathlib.Path | None, Parameter(help="File to write the tree to as well.")
    ] = None,
    threads: ThreadOptions = DEFAULT_THREADS,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw one rollout, and show its threads as a tree with the tokens of each draw.

    **Examples:**

        reasonloop apr trace models/apr-parallel --problem 3,5,12=27
        reasonloop apr trace models/apr-parallel --problem 3,5,12=27 --children 5 --html trace.html
    """
    loaded = params.load()
    from pipeline_lib.adaptive.evaluation import trace as tracing  # noqa: PLC0415 - torch is slow

    if html is not None:
        check_output(html)
    folder = model.resolve()
    drawn = tracing.trace_problem(
        folder,
        tracing.parse_problem(problem),
        threads.setting(loaded, folder, samples=1),
    )
    for line in drawn.lines():
        _say(line)
    if html is not None:
        tracing.write_trace_page(html, folder, drawn)
        _say(str(html))


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
