"""`reasonloop run`: the whole loop."""

import pathlib

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    DEFAULT_SEEDS,
    ParamsOptions,
    RunOptions,
    SeedOptions,
)
from flows.cli.orchestrated import orchestrated
from flows.cli.seeds import run_each
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from flows.server import server
from pipeline_lib.params.whole import Params
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.systems.loop.stages import LOOP


def run(
    *,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
    seeds: SeedOptions = DEFAULT_SEEDS,
) -> None:
    """Run the whole loop: prepare, bootstrap, sample, verify, build, train, evaluate, report.

    Finished stages and shards are reused, so the same command resumes a broken run.

    **Examples:**

        reasonloop run
        reasonloop run --workspace /tmp/trial --profile smoke --set train.lr=1e-4
        reasonloop run --engine vllm
        reasonloop run --workspace /tmp/trial --seeds 7,8,9
    """
    run_each(LOOP.name, options, params, seeds, _run)


def _run(root: pathlib.Path, params: Params) -> None:
    with orchestrated(LOOP, root, params) as run:
        from flows.post_training import run_post_training  # noqa: PLC0415 - see `orchestrated`

        run_post_training(run)
    _print_summary(Workspace(root))
    say(f"Prefect UI: {server.ensure()}")


def _print_summary(workspace: Workspace) -> None:
    """Claims, tables, compute, tokens, seconds and memory of a finished run."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - below: matplotlib and scipy are slow

    from pipeline_lib.publish.reporting import tables  # noqa: PLC0415
    from pipeline_lib.publish.reporting.run_compute import (  # noqa: PLC0415
        RunCompute,
        StageCosts,
        TokenCount,
    )
    from pipeline_lib.study.pages.page import study_tables  # noqa: PLC0415
    from pipeline_lib.study.study import read_study  # noqa: PLC0415

    study = read_study(workspace.metrics)
    for table in study_tables(study):
        print_table(table)
    spent = TypeAdapter(RunCompute).validate_python(
        {name: study.compute[name] for name in ("loop", "control")}
    )
    print_table(tables.run_compute_table(spent))
    seconds = study.compute["seconds"]
    costs = StageCosts(
        seconds={stage.name: seconds[stage.name] for stage in LOOP.stages if stage.name in seconds},
        total_seconds=seconds["total"],
        tokens={name: TokenCount(**spent) for name, spent in study.compute["tokens"].items()},
        peaks_mib=study.compute["peak_mib"],
    )
    print_table(tables.cost_table(costs))
    print_claims(study)
    say(f"\nreport:     {workspace.reports / 'report.html'}")
    say(f"metrics:    {workspace.metrics}")
