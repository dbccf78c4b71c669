"""`reasonloop apr generate`, `train`, `rl` and `solve`."""

import pathlib
from collections.abc import Mapping
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.options import (
    AT_LEAST_ONE,
    AT_LEAST_ZERO,
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    EngineLogs,
    EngineOption,
    Minutes,
    Model,
    ModelFolder,
    ParamsOptions,
    Temperature,
    seconds_of,
)
from flows.cli.progress import progress_bar
from flows.run.terminal import say
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.store.files import check_output

_SHOWN = {
    "reward": "reward {:.3f}",
    "accuracy": "accuracy {:.3f}",
    "children": "children {:.1f}",
    "drawn_tokens": "drawn tokens {:.0f}",
    "kl": "k3 {:.5f}",
    "clip_fraction": "clipped {:.4f}",
    "unjudged": "failed {:.3f}",
}
"""Metrics of a step that are printed."""


def generate(
    *,
    output: Annotated[pathlib.Path, Parameter(help="Folder for problems and traces.")],
    workers: Annotated[
        int,
        Parameter(help="Processes; the result does not depend on them.", validator=AT_LEAST_ONE),
    ] = 1,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Write Countdown problems and the traces of parallel and serial searches; a killed command continues.

    **Examples:**

        reasonloop apr generate --output data/apr --workers 2
        reasonloop apr generate --output data/apr4 --set apr.data.countdown.num_numbers=4
    """
    loaded = params.load()
    from pipeline_lib.systems.apr.data_folder import generate_data, trace_kinds  # noqa: PLC0415 - slow
    from pipeline_lib.systems.apr.own_data import own_data  # noqa: PLC0415 - as above

    with progress_bar("generate") as moved:
        manifest = generate_data(
            loaded.apr.data,
            output.resolve(),
            seed=loaded.seed,
            workers=workers,
            own=own_data(loaded),
            progress=moved,
        )
    counts = manifest.counts
    for kind in trace_kinds(loaded.apr.data):
        solved = counts[f"{kind}_solved"] / counts[f"{kind}_problems"]
        say(f"{kind}: {counts[f'{kind}_rows']:.0f} sequences, {solved:.1%} of the problems solved")
    say(f"data: {output}, digest {manifest.digest[:16]}")


def import_traces(
    source: Annotated[
        pathlib.Path, Parameter(help="JSON file of arXiv 2504.15466's release, or of its scripts.")
    ],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="Folder for problems and traces.")],
    model: Annotated[
        pathlib.Path | None,
        Parameter(help="Folder of a released model; gets a threads.json, so it can be evaluated."),
    ] = None,
) -> None:
    """Write released traces of Countdown to a data folder that models are trained on.

    **Examples:**

        reasonloop apr import-traces train_apr.json --output data/apr-released
        reasonloop apr train data/apr-released --kind parallel --output models/apr-released --profile apr-published
        reasonloop apr import-traces train_apr.json --output data/apr-released --model models/llama-apr
    """
    from pipeline_lib.systems.apr import released  # noqa: PLC0415 - pandas is slow

    manifest = released.import_traces(source, output.resolve(), model=model)
    [problems, rows] = manifest.counts.values()
    say(f"{problems:.0f} problems, {rows:.0f} sequences: {output}, digest {manifest.digest[:16]}")


def train(
    data: Annotated[pathlib.Path, Parameter(help="Folder of `reasonloop apr generate`.")],
    /,
    *,
    kind: Annotated[
        Literal["parallel", "serial", "terse"],
        Parameter(help="Traces to train on; terse: of questions in parts alone."),
    ],
    output: ModelFolder,
    minutes: Minutes = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Train a small model from scratch on traces; an interrupted training resumes.

    A training that stops because of `--minutes` ends with exit code 3.

    **Examples:**

        reasonloop apr train data/apr --kind parallel --output models/apr-parallel
        reasonloop apr train data/apr --kind serial --output models/apr-serial --minutes 10
    """
    loaded = params.load()
    from pipeline_lib.systems.apr.model_record import read_record  # noqa: PLC0415 - after the params
    from pipeline_lib.systems.apr.sft import train_on_traces  # noqa: PLC0415 - torch is slow
    from pipeline_lib.train.tracking.trackers import trackers_beside  # noqa: PLC0415 - as above

    output = output.resolve()
    trackers = trackers_beside(output, loaded.execution)
    with progress_bar(f"train {kind}") as moved:
        manifest = train_on_traces(
            data.resolve(),
            kind,
            output,
            loaded.apr,
            seed=loaded.seed,
            max_seconds=seconds_of(minutes),
            progress=moved,
            trackers=trackers,
        )
    record = read_record(output)
    say(f"sequences: {record.sequences}, and {record.dropped} longer than {record.window} tokens")
    tokens = manifest.counts["trained_tokens"]
    say(f"model: {output}, {tokens:.0f} trained tokens, digest {manifest.digest[:16]}")


def rl(
    model: Annotated[
        pathlib.Path,
        Parameter(help="Folder of `apr train`, of this command, or of any language model."),
    ],
    /,
    *,
    data: Annotated[
        pathlib.Path | None,
        Parameter(help="Folder of `apr generate`, for its training problems; or give --task."),
    ] = None,
    output: ModelFolder,
    minutes: Minutes = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Train a model on rollouts of its own, rewarded by their answers; an interrupted training resumes.

    A training that stops because of `--minutes` ends with exit code 3.

    **Examples:**

        reasonloop apr rl models/apr-parallel --data data/apr --output models/apr-parallel-rl
        reasonloop apr rl models/apr-serial --data data/apr --output models/apr-serial-rl --minutes 10
        reasonloop apr rl models/apr-parallel --data data/apr --output models/apr-5 --set apr.rl.children=5
    """
    loaded = params.load()
    if (data is None) == (params.task is None):
        raise BadInputError("give either --data DATA or --task FILE")
    from pipeline_lib.systems.apr.evaluation.problem_source import read_task  # noqa: PLC0415 - torch is slow
    from pipeline_lib.systems.apr.rl import train_by_rl  # noqa: PLC0415 - as above
    from pipeline_lib.train.tracking.trackers import trackers_beside  # noqa: PLC0415 - as above

    output = output.resolve()
    trackers = trackers_beside(output, loaded.execution)
    with progress_bar("rl", _say_step) as moved:
        manifest = train_by_rl(
            model.resolve(),
            read_task(loaded, "train") if data is None else data.resolve(),
            output,
            loaded.apr.rl,
            seed=loaded.seed,
            verify=loaded.verify,
            lora=loaded.apr.model.lora,
            serve=loaded.serve,
            max_seconds=seconds_of(minutes),
            progress=moved,
            trackers=trackers,
        )
    tokens = manifest.counts["drawn_tokens"]
    say(
        f"model: {output}, {tokens:.0f} tokens of drawn sequences with their prompts, digest {manifest.digest[:16]}"
    )


def _say_step(step: int, total: int, metrics: Mapping[str, float]) -> None:
    shown = [text.format(metrics[name]) for name, text in _SHOWN.items() if name in metrics]
    say(f"step {step} of {total}: {', '.join(shown)}")


_BATCH = 16
"""Sequences decoded together in process."""


def solve(  # noqa: PLR0913 - one argument per option
    model: Model,
    question: Annotated[
        str | None, Parameter(help="The question, as the user would ask it.")
    ] = None,
    /,
    *,
    problems: Annotated[
        pathlib.Path | None,
        Parameter(help='Instead of a question: JSON lines with "id" and "question".'),
    ] = None,
    output: Annotated[
        pathlib.Path | None, Parameter(help="JSON-lines file for the answers to --problems.")
    ] = None,
    children: Annotated[int, Parameter(help="Children of one spawn.", validator=AT_LEAST_ONE)] = 8,
    depth: Annotated[
        int, Parameter(help="Generations of children; 0: none.", validator=AT_LEAST_ZERO)
    ] = 1,
    draws: Annotated[int, Parameter(help="Draws of one thread.", validator=AT_LEAST_ONE)] = 4,
    max_tokens: Annotated[int, Parameter(help="Tokens of one draw.", validator=AT_LEAST_ONE)] = 512,
    all_tokens: Annotated[
        int, Parameter(help="Tokens that all threads draw together.", validator=AT_LEAST_ONE)
    ] = 8192,
    temperature: Temperature = 0.0,
    engine: EngineOption = None,
    workspace: EngineLogs = DEFAULT_RUN.workspace,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Answer questions with a language model that may spawn threads for parts of the work.

    A model of `reasonloop apr train` gets the texts that it was trained on, any other one is told of tags. With
    --problems a killed command continues; questions whose draws failed are asked again by the same command.

    **Examples:**

        reasonloop apr solve models/smollm2 "What is 17 * 23, and what is 19 * 29?"
        reasonloop apr solve models/apr-parallel --problems questions.jsonl --output answers.jsonl
        reasonloop apr solve NAME "..." --engine url --set serve.url=http://host:8000/v1 --depth 2
    """
    loaded = params.load({"serve.engine": engine})
    if (question is None) == (problems is None) or (problems is None) != (output is None):
        raise BadInputError("give either a question, or --problems FILE and --output FILE")
    from pipeline_lib.engines.chat_model import Decoding  # noqa: PLC0415 - torch is slow
    from pipeline_lib.engines.started_engine import started_engine  # noqa: PLC0415 - as above
    from pipeline_lib.systems.apr import solve as solving  # noqa: PLC0415 - as above
    from pipeline_lib.systems.apr.tasks import trained_task  # noqa: PLC0415 - as above
    from pipeline_lib.systems.apr.threads import Limits  # noqa: PLC0415 - as above

    asked = {} if problems is None else solving.read_questions(problems)
    if output is not None:
        check_output(output, source=problems)
    log_folder = workspace.resolve() / "logs"
    with started_engine(model, loaded.serve, log_folder=log_folder, batch_size=_BATCH) as drawing:
        solver = solving.Solver(
            engine=drawing,
            task=trained_task(pathlib.Path(model), loaded.verify),
            limits=Limits(depth=depth, children=children, draws=draws, tokens=all_tokens),
            decoding=Decoding(temperature=temperature, max_new_tokens=max_tokens),
            concurrency=loaded.serve.concurrency,
            seed=loaded.seed,
        )
        if output is not None:
            with progress_bar("apr solve") as moved:
                failed = solver.solve_file(asked, output, moved)
            say(f"{len(asked) - failed} of {len(asked)} answered: {output}")
            if failed:
                raise ReasonloopError(
                    f"{failed} of {len(asked)} failed; the same command asks them again"
                )
            return
        assert question is not None
        [rollout] = solver.solve([question])
    if rollout.error is not None:
        raise ReasonloopError(f"the first thread failed: {rollout.error}")
    say(solving.answer_of(rollout))
    for line in solving.account(rollout):
        say(line)
