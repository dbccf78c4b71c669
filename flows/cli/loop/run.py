"""`reasonloop run`: the whole loop."""

from pydantic import TypeAdapter

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions
from flows.cli.orchestrated import orchestrated
from flows.cli.tables import print_table
from flows.run.terminal import console, say
from flows.server import server
from pipeline_lib.publish.reporting import tables
from pipeline_lib.publish.reporting.metrics_file import StageCosts, TokenCount
from pipeline_lib.publish.reporting.run_compute import RunCompute
from pipeline_lib.store.files import read_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.result import read_result
from pipeline_lib.systems.loop.stages import LOOP


def run(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Run the whole loop: prepare, bootstrap, sample, verify, build, train, evaluate, report.

    Finished stages and shards are reused, so the same command resumes a broken run.

    **Examples:**

        reasonloop run
        reasonloop run --workspace /tmp/trial --profile smoke --set train.lr=1e-4
        reasonloop run --engine vllm
    """
    loaded = params.load(options.given)
    root = options.workspace.resolve()
    with orchestrated(LOOP, root, loaded) as run:
        from flows.post_training import run_post_training  # noqa: PLC0415 - see `orchestrated`

        run_post_training(run)
    _print_summary(Workspace(root))
    say(f"Prefect UI: {server.ensure()}")


def _print_summary(workspace: Workspace) -> None:
    """Scores, differences, compute, tokens, seconds, memory and headline of a finished run."""
    result = read_result(workspace.evaluation_result)
    figures = read_json(workspace.metrics)
    found = figures["seconds"]
    costs = StageCosts(
        seconds={stage.name: found[stage.name] for stage in LOOP.stages if stage.name in found},
        total_seconds=found["total"],
        tokens={name: TokenCount(**spent) for name, spent in figures["tokens"].items()},
        peaks_mib=figures["peak_mib"],
    )
    print_table(tables.score_table(result.summaries))
    for table in tables.paired_tables(result):
        print_table(table)
    spent = TypeAdapter(RunCompute).validate_python(figures["compute"])
    print_table(tables.run_compute_table(spent))
    print_table(tables.cost_table(costs))
    console.print(f"\n[bold]{figures['headline']['title']}[/]")
    for sentence in figures["headline"]["sentences"]:
        say(sentence)
    say(f"\nreport:     {workspace.reports / 'report.html'}")
    say(f"metrics:    {workspace.metrics}")
