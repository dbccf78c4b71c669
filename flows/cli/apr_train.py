"""`reasonloop apr train`."""

import pathlib
from collections.abc import Mapping
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from flows.cli.options import DEFAULT_PARAMS, ParamsOptions
from flows.cli.progress import progress_bar
from flows.terminal import PlainConsole

console = PlainConsole()


def train(
    data: Annotated[pathlib.Path, Parameter(help="Folder of `reasonloop apr generate`.")],
    /,
    *,
    kind: Annotated[Literal["parallel", "serial"], Parameter(help="Traces to train on.")],
    output: Annotated[pathlib.Path, Parameter(help="Folder to write the model to.")],
    minutes: Annotated[
        float | None,
        Parameter(
            help="Time limit; training stops behind a checkpoint, and the same command resumes it.",
            validator=validators.Number(gt=0),
        ),
    ] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Train a small model from scratch on traces; an interrupted training resumes.

    A training that stops because of `--minutes` ends with exit code 3.

    **Examples:**

        reasonloop apr train data/apr --kind parallel --output models/apr-parallel
        reasonloop apr train data/apr --kind serial --output models/apr-serial --minutes 10
    """
    loaded = params.load()
    from pipeline_lib.adaptive.model_record import read_record  # noqa: PLC0415 - after the params
    from pipeline_lib.adaptive.sft import train_on_traces  # noqa: PLC0415 - torch is slow

    with progress_bar(console, f"train {kind}") as moved:

        def progress(step: int, total: int, _metrics: Mapping[str, float]) -> None:
            moved(step, total)

        manifest = train_on_traces(
            data.resolve(),
            kind,
            output.resolve(),
            loaded.adaptive,
            seed=loaded.seed,
            max_seconds=None if minutes is None else 60 * minutes,
            progress=progress,
        )
    record = read_record(output)
    _say(f"sequences: {record.sequences}, and {record.dropped} longer than {record.window} tokens")
    tokens = manifest.counts["trained_tokens"]
    _say(f"model: {output}, {tokens:.0f} trained tokens, digest {manifest.digest[:16]}")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
