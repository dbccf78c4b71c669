"""`reasonloop pacore base`, `train`, `evaluate` and `run`: models, and what they are compared by."""

import pathlib
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    DEFAULT_SEEDS,
    EngineOption,
    ModelFolder,
    ParamsOptions,
    RunOptions,
    SeedOptions,
    Workers,
)
from flows.cli.orchestrated import run_whole
from flows.cli.progress import progress_bar
from flows.cli.seeds import run_each
from flows.cli.tables import print_counts, print_evaluation, print_study
from flows.run.admission import check_trackers
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.splits import split_notes
from pipeline_lib.sampling.prompts import user_message
from pipeline_lib.store.folders import replaced
from pipeline_lib.systems.pacore.message_cache import read_cache
from pipeline_lib.systems.pacore.stages import PACORE

if TYPE_CHECKING:
    from pipeline_lib.study.study import Study


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
    from pipeline_lib.train.weights.compact_chat import write_compact_chat  # noqa: PLC0415 - torch is slow

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

    SFT learns a right response from others as references. GRPO and PPO reward the model's own syntheses by
    the verifier. Episodes and a data card are written beside the output.

    **Examples:**

        reasonloop sample models/smollm2 --output cache.jsonl --split train --num-paths 8 --profile smol
        reasonloop pacore train models/smollm2 cache.jsonl --output models/pacore
        reasonloop pacore train models/pacore cache.jsonl --output models/pacore-rl --set pacore.train.method=ppo
    """
    loaded = params.load()
    from pipeline_lib.systems.pacore.synthesizer import (  # noqa: PLC0415 - after the params
        chat_format_for,
        check_method,
        judge_cache,
        train_synthesizer,
    )

    check_method(loaded.pacore.train)
    check_trackers(loaded.execution)
    ask = partial(user_message, chat_format=chat_format_for(base))
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
    engine: EngineOption = None,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Compare synthesis with votes on the test problems of a data set; a killed evaluation continues.

    Each strategy of `pacore.evaluate` is compared with the best vote that draws no more tokens, reads and draws
    no more, or has no longer critical path; with several models, also with the votes of the others. The evaluation is
    about the last model. A vote is capped where even the vote of all `pacore.evaluate.plain_paths` costs less than the
    strategy.

    **Examples:**

        reasonloop pacore evaluate models/smollm2 --output reports/pacore --profile smol --problems 60
        reasonloop pacore evaluate models/base models/pacore --output reports/pacore --profile smol
    """
    if len(set(models)) < len(models):
        raise BadInputError(f"{' '.join(models)}: a model is given twice")
    loaded = params.load({"prepare.test_problems": problems, "serve.engine": engine})
    from pipeline_lib.systems.pacore.evaluation import evaluate as evaluation  # noqa: PLC0415 - scipy is slow

    splits = evaluation.read_splits(loaded)
    if (note := split_notes(asdict(splits.report)).get("test")) is not None:
        say(note)
    with progress_bar("pacore evaluate") as moved:
        evaluation.evaluate_models(
            {model: model for model in models},
            splits.test,
            output,
            loaded,
            about=models[-1],
            workers=workers,
            on_progress=moved,
        )
    print_evaluation(output)


def run(
    *,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
    seeds: SeedOptions = DEFAULT_SEEDS,
) -> None:
    """Train a synthesizer from the policy of a finished `reasonloop run`, and compare it with votes.

    Four stages in the same workspace: judged paths of the policy for the train problems, training, its control
    on plain prompts, evaluation on the test problems. Finished stages are reused.

    **Examples:**

        reasonloop pacore run
        reasonloop pacore run --workspace /tmp/trial --set pacore.train.method=grpo
        reasonloop pacore run --workspace /tmp/trial --seeds 7,8,9
    """
    run_each(PACORE.name, options, params, seeds, _run)


def _run(root: pathlib.Path, params: Params) -> None:
    run = run_whole(PACORE, root, params)
    folder = run.workspace.pacore.reports
    from pipeline_lib.study.study import METRICS_NAME, read_study  # noqa: PLC0415 - scipy is slow

    study = read_study(folder / METRICS_NAME)
    print_study(_of_synthesizer(study), folder)


def _of_synthesizer(study: "Study") -> "Study":
    """Without the figures of the other models."""
    own = {one.name for one in study.arms if one.settings["model"] == "synthesizer"}
    return replace(
        study,
        points=tuple(one for one in study.points if one.arm in own),
        differences=tuple(one for one in study.differences if one.arm in own),
    )
