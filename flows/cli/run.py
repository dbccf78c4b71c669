"""`reasonloop run`: the whole loop."""

from flows import server
from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.cli.orchestrated import orchestrated
from flows.cli.summary import print_summary
from flows.terminal import PlainConsole
from pipeline_lib.storage.workspace import Workspace

console = PlainConsole()


def run(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Run the whole loop: prepare, bootstrap, sample, verify, build, train, evaluate, report.

    Finished stages and shards are taken up again, so the same command continues a broken run.

    **Examples:**

        reasonloop run
        reasonloop run --workspace /tmp/trial --profile smoke --set train.lr=1e-4
        reasonloop run --engine vllm
    """
    loaded = params.load(*options.overrides)
    root = options.workspace.resolve()
    with orchestrated(root, loaded, console) as run:
        from flows.post_training import run_post_training  # noqa: PLC0415 - see `orchestrated`

        run_post_training(run)
    print_summary(Workspace(root), console)
    console.print(f"Prefect UI: {server.ensure()}", soft_wrap=True)
