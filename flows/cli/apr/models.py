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
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.systems.apr.countdown.lines import KINDS

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
    from pipeline_lib.systems.apr.countdown.data_folder import generate_data  # noqa: PLC0415 - slow

    with progress_bar("generate") as moved:
        manifest = generate_data(
            loaded.apr.data,
            output.resolve(),
            seed=loaded.seed,
            workers=workers,
            progress=moved,
        )
    counts = manifest.counts
    for kind in KINDS:
        solved = counts[f"{kind}_solved"] / counts[f"{kind}_problems"]
        say(f"{kind}: {counts[f'{kind}_rows']:.0f} sequences, {solved:.1%} of the problems solved")
    say(f"data: {output}, digest {manifest.digest[:16]}")


def train(
    data: Annotated[pathlib.Path, Parameter(help="Folder of `reasonloop apr generate`.")],
    /,
    *,
    kind: Annotated[Literal["parallel", "serial"], Parameter(help="Traces to train on.")],
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
        pathlib.Path, Parameter(help="Folder of `reasonloop apr train`, or of this command.")
    ],
    /,
    *,
    data: Annotated[
        pathlib.Path,
        Parameter(help="Folder of `reasonloop apr generate`; its training problems are used."),
    ],
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
    from pipeline_lib.systems.apr.rl import train_by_rl  # noqa: PLC0415 - torch is slow
    from pipeline_lib.train.tracking.trackers import trackers_beside  # noqa: PLC0415 - as above

    output = output.resolve()
    trackers = trackers_beside(output, loaded.execution)
    with progress_bar("rl", _say_step) as moved:
        manifest = train_by_rl(
            model.resolve(),
            data.resolve(),
            output,
            loaded.apr.rl,
            seed=loaded.seed,
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
    question: Annotated[str, Parameter(help="The question, as the user would ask it.")],
    /,
    *,
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
    """Answer one question with a language model that may spawn threads for parts of the work.

    **Examples:**

        reasonloop apr solve models/smollm2 "What is 17 * 23, and what is 19 * 29?"
        reasonloop apr solve NAME "..." --engine url --set serve.url=http://host:8000/v1 --depth 2
    """
    loaded = params.load({"serve.engine": engine})
    from pipeline_lib.engines.chat_model import Decoding  # noqa: PLC0415 - as above
    from pipeline_lib.engines.started_engine import started_engine  # noqa: PLC0415 - as above
    from pipeline_lib.systems.apr import solve as solving  # noqa: PLC0415 - torch is slow
    from pipeline_lib.systems.apr.runtime import Limits  # noqa: PLC0415 - as above

    log_folder = workspace.resolve() / "logs"
    with started_engine(model, loaded.serve, log_folder=log_folder, batch_size=_BATCH) as drawing:
        [rollout] = solving.solve_all(
            drawing,
            [question],
            limits=Limits(depth=depth, children=children, draws=draws, tokens=all_tokens),
            decoding=Decoding(temperature=temperature, max_new_tokens=max_tokens),
            concurrency=loaded.serve.concurrency,
            seed=loaded.seed,
        )
    if rollout.error is not None:
        raise ReasonloopError(f"the first thread failed: {rollout.error}")
    say(solving.answer_of(rollout))
    for line in solving.account(rollout):
        say(line)
