"""The `reasonloop` command: a thin front. Heavy imports wait until a command needs them."""

import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from flows.dvc_file import stages
from flows.exports import export_app
from flows.failures import failure_line
from flows.options import AT_LEAST_ONE, Engine, ParamsOptions, RunOptions, StageName
from flows.overlap import overlap
from flows.path_commands import PATH_COMMANDS
from flows.prr_commands import prr_app
from flows.prr_model_commands import MODEL_COMMANDS
from flows.server_commands import server_app
from flows.terminal import PlainConsole, complain
from pipeline_lib.errors import BadInputError, ReasonloopError

app = App(
    name="reasonloop",
    help="Many reasoning paths, one verified loop: sample, verify, train, evaluate.",
    version_flags=["--version"],
    help_format="markdown",
)
for path_command in PATH_COMMANDS:
    app.command(path_command)
app.command(server_app)
app.command(prr_app)
for model_command in MODEL_COMMANDS:
    prr_app.command(model_command)
app.command(export_app)
app.command(overlap)
app.command(stages)

INTERRUPTED = 130
console = PlainConsole()


DEFAULT_PARAMS = ParamsOptions()
DEFAULT_RUN = RunOptions()


@app.command
def run(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Run the whole loop: prepare, bootstrap, sample, verify, build, train, evaluate, report.

    Finished stages and shards are taken up again, so the same command continues a broken run.

    **Examples:**

        reasonloop run
        reasonloop run --workspace /tmp/trial --profile smoke --set train.lr=1e-4
        reasonloop run --engine vllm
    """
    loaded = params.load(*options.overrides)
    from flows.console import run_whole_loop  # noqa: PLC0415 - Prefect takes seconds to import

    run_whole_loop(options.workspace.resolve(), loaded, console)


@app.command
def stage(
    name: StageName,
    /,
    *,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Run one stage of the loop; dvc.yaml calls this.

    **Example:**

        reasonloop stage sample
    """
    loaded = params.load(*options.overrides)
    from flows.console import run_one_stage  # noqa: PLC0415 - Prefect takes seconds to import

    run_one_stage(name, options.workspace.resolve(), loaded, console)


@app.command
def compute_curves(
    *,
    policy: Annotated[
        Literal["base", "trained", "both"], Parameter(help="Which policy of the workspace.")
    ] = "trained",
    strategies: Annotated[
        str | None,
        Parameter(
            help="Some of single, oracle, likelihood, mean-logprob, self-certainty, majority, "
            "likelihood-vote, self-certainty-vote, borda-vote, beam and tree, parted by commas; "
            "without it, compute.strategies of the params file decides."
        ),
    ] = None,
    max_paths: Annotated[
        int | None,
        Parameter(
            help="Largest budget of a problem; the others are the powers of two below it.",
            validator=AT_LEAST_ONE,
        ),
    ] = None,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Spend test-time compute on the test problems of a finished run, and draw what it brings.

    Accuracy against tokens and against the longest sequential chain of tokens, with intervals over
    problems, for one path, best-of-N, votes, beam search and tree search. No strategy sees a gold
    answer; the oracle does, and is shown as an upper bound. Finished shards are taken up again.

    **Examples:**

        reasonloop compute-curves --workspace /tmp/trial
        reasonloop compute-curves --policy both --strategies single,majority,tree --max-paths 16
        reasonloop compute-curves --set compute.tree.exploration=0.5 --set compute.beam.expansion=2
    """
    more = [f"compute.strategies=[{strategies}]"] if strategies is not None else []
    if max_paths is not None:
        powers = [2**power for power in range(max_paths.bit_length()) if 2**power < max_paths]
        more.append(f"compute.budgets={[*powers, max_paths]}")
    loaded = params.load(*options.overrides, *more)
    from flows.console import run_test_time_compute  # noqa: PLC0415 - Prefect takes seconds to import

    run_test_time_compute(
        options.workspace.resolve(),
        loaded,
        console,
        policies=("base", "trained") if policy == "both" else (policy,),
    )


@app.command
def report(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Write metrics.json, plots and report.html of a finished run again.

    **Example:**

        reasonloop report --workspace /tmp/trial
    """
    stage("report", options=options, params=params)


@app.command
def serve(
    model: Annotated[
        str, Parameter(help="A Hugging Face folder or hub id; at a URL, the name it has there.")
    ],
    /,
    *,
    engine: Annotated[
        Engine | None, Parameter(help="Without it, serve.engine of the params file decides.")
    ] = None,
    port: Annotated[
        int | None, Parameter(help="The first port to try; the next free one is taken.")
    ] = None,
    lora: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A LoRA adapter as NAME=FOLDER; may be repeated."),
    ] = (),
    workspace: Annotated[
        pathlib.Path, Parameter(help="Folder whose logs/ gets the engine's output.")
    ] = DEFAULT_RUN.workspace,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Serve a model to any OpenAI client, on this machine only, until Ctrl-C.

    An engine that crashes or hangs is started again on the same port.

    **Examples:**

        reasonloop serve models/policy
        reasonloop serve models/base --engine vllm --port 8400 --lora policy=adapters/round-1
        reasonloop serve NAME --engine url --set serve.url=http://host:8000/v1
    """
    more = [f"serve.engine={engine}"] if engine is not None else []
    more += [f"serve.port={port}"] if port is not None else []
    loaded = params.load(*more)
    from flows.serve_command import serve_until_signal  # noqa: PLC0415 - only this command needs it

    log_folder = workspace.resolve() / "logs"
    serve_until_signal(model, loaded.serve, console, lora=lora, log_folder=log_folder)


@app.command
def doctor() -> None:
    """Check this machine: packages, server, Ray, DVC, sandbox, GPU, disk; each line says what to do.

    **Example:**

        reasonloop doctor
    """
    from flows.doctor import examine  # noqa: PLC0415 - only this command needs it

    sys.exit(0 if examine(console) else 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an error that a user can act on is one line and an exit code."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        complain(str(error))
        sys.exit(BadInputError.exit_code)
    except ReasonloopError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        line = failure_line(error)
        if line is None:  # a bug
            raise
        complain(line)
        sys.exit(ReasonloopError.exit_code)


if __name__ == "__main__":
    main()
