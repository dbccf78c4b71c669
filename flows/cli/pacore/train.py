"""`reasonloop pacore base`, `train` and `evaluate`."""

import pathlib
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    EngineOption,
    ModelFolder,
    ParamsOptions,
    Workers,
    read_set,
)
from flows.cli.progress import progress_bar
from flows.cli.tables import print_counts, print_evaluation
from flows.run.admission import check_trackers
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError
from pipeline_lib.sampling.prompts import conversation
from pipeline_lib.store.folders import replaced
from pipeline_lib.systems.pacore.message_cache import read_cache


def base(
    policy: Annotated[
        str,
        Parameter(help="A policy without a chat template, as `reasonloop run` makes from scratch."),
    ],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="New folder for the model.")],
) -> None:
    """Write a policy as a chat model whose messages are its compact prompts, so that `pacore` can ask it.

    **Examples:**

        reasonloop pacore base models/policy --output models/pacore-base
        reasonloop pacore solve models/pacore-base "3,5,12=27"
    """
    if output.exists():
        raise BadInputError(f"{output}: exists; choose another --output")
    from pipeline_lib.train.weights.export import write_compact_chat  # noqa: PLC0415 - torch is slow

    with replaced(output) as fresh:
        write_compact_chat(policy, fresh)
    say(f"model: {output}")


def train(
    base: Annotated[str, Parameter(help="A Hugging Face folder or hub id with a chat template.")],
    cache: Annotated[
        pathlib.Path,
        Parameter(
            help='Responses as JSON lines: {"conversation", "responses", "ground_truth"}, or paths of '
            "`reasonloop sample`."
        ),
    ],
    /,
    *,
    output: ModelFolder,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Train a model to synthesize from cached responses; an interrupted training resumes.

    SFT learns a right response from others as references. GRPO and PPO reward the model's own syntheses by the verifier,
    of cached or of newly drawn references. Episodes and a data card are written beside the output.

    **Examples:**

        reasonloop sample models/smollm2 --output cache.jsonl --split train --num-paths 8 --profile smol
        reasonloop pacore train models/smollm2 cache.jsonl --output models/pacore
        reasonloop pacore train models/pacore cache.jsonl --output models/pacore-rl --set pacore.train.method=ppo
    """
    loaded = params.load()
    from pipeline_lib.systems.pacore.synthesizer import (  # noqa: PLC0415 - after the params
        chat_format_for,
        judge_cache,
        train_synthesizer,
    )

    check_trackers(loaded.execution)
    ask = partial(conversation, chat_format=chat_format_for(base))
    cached = read_cache(cache, kind=loaded.pacore.kind, ask=ask)
    questions = judge_cache(cached, loaded, workers=workers)

    with progress_bar("pacore train") as moved:
        trained = train_synthesizer(base, questions, output, loaded, progress=moved)
    print_counts(trained.episodes.counts)
    last = ", ".join(f"{name} {value:.3g}" for name, value in trained.summary.last.items())
    for text in (
        f"model: {output}, {trained.summary.steps} steps, digest {trained.summary.digest[:16]}",
        f"last step: {last}",
        f"episodes: {trained.rows}",
        f"data card: {trained.card}",
    ):
        say(text)


def evaluate(  # noqa: PLR0913 - one argument per option
    models: Annotated[
        tuple[str, ...],
        Parameter(help="Hugging Face folders or hub ids; at a url, one model's name there."),
    ],
    /,
    *,
    output: Annotated[
        pathlib.Path, Parameter(help="Folder for metrics.json, report.html and the trials.")
    ],
    dataset: Annotated[
        str | None,
        Parameter(
            help="A whole data set: NAME, NAME=FOLDER or NAME=HUB_ID; default: the test split of prepare.dataset."
        ),
    ] = None,
    problems: Annotated[
        int | None, Parameter(help="How many problems.", validator=AT_LEAST_ONE)
    ] = None,
    engine: EngineOption = None,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Compare synthesis with votes on problems of a data set; a killed evaluation continues.

    Each strategy of `pacore.evaluate` is compared with the best vote that draws no more tokens, reads and draws
    no more, or has no longer critical path; with several models, also with the votes of the others. The evaluation is
    about the last model. A vote is capped where even the vote of all `pacore.evaluate.plain_paths` costs less than the
    strategy.

    **Examples:**

        reasonloop pacore evaluate models/smollm2 --output reports/pacore --profile smol --problems 60
        reasonloop pacore evaluate models/base models/pacore --output reports/pacore --profile smol
        reasonloop pacore evaluate models/smollm2 --dataset aime24 --output reports/aime24 --profile smol
    """
    if len(set(models)) < len(models):
        raise BadInputError(f"{' '.join(models)}: a model is given twice")
    loaded = params.load(
        {
            "prepare.test_problems": problems,
            "evaluate.sets": read_set(dataset, problems),
            "serve.engine": engine,
        }
    )
    from pipeline_lib.systems.pacore import evaluation  # noqa: PLC0415 - scipy is slow

    asked, note = evaluation.read_problems(loaded, is_whole=dataset is not None)
    if note is not None:
        say(note)
    with progress_bar("pacore evaluate") as moved:
        evaluation.evaluate_models(
            {model: model for model in models},
            asked,
            output,
            loaded,
            about=models[-1],
            workers=workers,
            on_progress=moved,
        )
    print_evaluation(output)
