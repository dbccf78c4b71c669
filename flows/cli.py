"""The `reasonloop` command: a thin front. Heavy imports wait until a command needs them."""

import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from flows.exports import export_app
from flows.options import AT_LEAST_ONE, Engine, ParamsOptions, RunOptions, Stage, Workers
from flows.overlap import overlap
from flows.prr_commands import prr_app
from flows.prr_model_commands import MODEL_COMMANDS
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.train import Method

app = App(
    name="reasonloop",
    help="Many reasoning paths, one verified loop: sample, verify, train, evaluate.",
    version_flags=["--version"],
    help_format="markdown",
)
server_app = App(name="server", help="The local Prefect server that runs are recorded on.")
app.command(server_app)
app.command(prr_app)
for model_command in MODEL_COMMANDS:
    prr_app.command(model_command)
app.command(export_app)
app.command(overlap)

INTERRUPTED = 130
console = Console()


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
    name: Stage,
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
def sample(
    model: Annotated[
        str, Parameter(help="A Hugging Face folder or hub id; at a url, the model's name there.")
    ],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="JSON-lines file to write.")],
    num_paths: Annotated[
        int | None, Parameter(help="Paths per problem.", validator=AT_LEAST_ONE)
    ] = None,
    problems: Annotated[
        int | None, Parameter(help="How many test problems.", validator=AT_LEAST_ONE)
    ] = None,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Draw paths for the test problems of a data set, as lines that `reasonloop verify` reads.

    **Examples:**

        reasonloop sample models/policy --output paths.jsonl --num-paths 10 --problems 50
        reasonloop sample models/policy --output paths.jsonl --set serve.engine=vllm
        reasonloop sample NAME --output paths.jsonl --set serve.engine=url --set serve.url=http://host:8000/v1
    """
    more = [f"sample.num_paths={num_paths}"] if num_paths is not None else []
    more += [f"prepare.test_problems={problems}"] if problems is not None else []
    loaded = params.load(*more)
    from flows.commands import sample_to_file  # noqa: PLC0415 - torch takes seconds to import

    sample_to_file(model, output, loaded, console)


@app.command
def verify(
    source: Annotated[pathlib.Path, Parameter(help="Answers to judge, as JSON lines.")],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="JSON-lines file to write.")],
    workers: Workers = 2,
    audit: Annotated[
        bool, Parameter(negative="", help="Show answers that only the strict score refuses.")
    ] = False,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the answers of a JSON-lines file; one verdict line per input line, in order.

    Input lines: `{"id","kind":"math","gold","text"}`,
    `{"id","kind":"countdown","numbers","target","text"}`,
    `{"id","kind":"code","entry_point","tests","text"}` or
    `{"id","kind":"arc","gold":[[1,2],[3,4]],"text"}`. Output lines:
    `{"id","status","strict","lenient","extracted","rule","seconds"}`.

    **Example:**

        reasonloop verify answers.jsonl --output verdicts.jsonl --workers 2
    """
    loaded = params.load()
    from flows.commands import verify_file  # noqa: PLC0415 - only this command needs it

    verify_file(source, output, loaded.verify, console, workers=workers, audit=audit)


@app.command
def build(
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    method: Annotated[Method, Parameter(help="What the data is for.")],
    output: Annotated[
        pathlib.Path, Parameter(help="JSON-lines file to write; a data card is put beside it.")
    ],
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and build training data from them.

    **Example:**

        reasonloop build paths.jsonl --method dpo --output pairs.jsonl
    """
    loaded = params.load()
    from flows.commands import build_file  # noqa: PLC0415 - only this command needs it

    build_file(source, output, method, loaded, console, workers=workers)


@app.command
def evaluate(
    source: Annotated[pathlib.Path, Parameter(help="Paths, several per `problem_id`.")],
    /,
    *,
    against: Annotated[
        pathlib.Path | None, Parameter(help="Paths of another policy for the same problems.")
    ] = None,
    workers: Workers = 2,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Judge the paths of a JSON-lines file and print pass@k with intervals.

    **Example:**

        reasonloop evaluate trained.jsonl --against base.jsonl --set evaluate.ks=[1,4]
    """
    loaded = params.load()
    from flows.commands import evaluate_files  # noqa: PLC0415 - only this command needs it

    evaluate_files(source, against, loaded, console, workers=workers)


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
    from flows.serve_command import serve_until_told  # noqa: PLC0415 - only this command needs it

    log_folder = workspace.resolve() / "logs"
    serve_until_told(model, loaded.serve, console, lora=lora, log_folder=log_folder)


@server_app.command(name="start")
def server_start() -> None:
    """Find or start the local Prefect server and print the address of its UI.

    **Example:**

        reasonloop server start
    """
    from flows import server  # noqa: PLC0415 - only this command needs it

    console.print(f"Prefect UI: {server.ensure()}")


@server_app.command(name="status")
def server_status() -> None:
    """Say whether the local Prefect server runs, and where.

    **Example:**

        reasonloop server status
    """
    from flows import server  # noqa: PLC0415 - only this command needs it

    found = server.find()
    console.print(f"running, process {found.pid}, UI: {found.ui_url}" if found else "not running")


@server_app.command(name="stop")
def server_stop() -> None:
    """Stop the local Prefect server that reasonloop started.

    **Example:**

        reasonloop server stop
    """
    from flows import server  # noqa: PLC0415 - only this command needs it

    console.print("stopped" if server.stop() else "there was none to stop")


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
        _complain(" ".join(str(error).split()))
        sys.exit(BadInputError.exit_code)
    except ReasonloopError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except OSError as error:  # a full disk, a lost permission
        _complain(" ".join(str(error).split()))
        sys.exit(ReasonloopError.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _complain(message: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(
        f"reasonloop: {message}", markup=False
    )


if __name__ == "__main__":
    main()
