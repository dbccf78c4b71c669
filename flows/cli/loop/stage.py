"""`reasonloop stage` and `reasonloop report`: one stage."""

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions, StageName
from flows.cli.orchestrated import orchestrated
from pipeline_lib.systems.table import STAGES, SYSTEM_OF


def stage(
    name: StageName,
    /,
    *,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Run one stage, as dvc.yaml does.

    **Example:**

        reasonloop stage sample
    """
    loaded, root = params.load(options.given), options.workspace.resolve()
    with orchestrated(SYSTEM_OF[name], root, loaded, draws=STAGES[name].draws) as run:
        from flows.system import run_stage  # noqa: PLC0415 - see `orchestrated`

        run_stage(name, run)


def report(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Rewrite metrics.json, plots and report.html of a finished run.

    **Example:**

        reasonloop report --workspace /tmp/trial
    """
    stage("report", options=options, params=params)
