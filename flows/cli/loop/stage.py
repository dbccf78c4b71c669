"""`reasonloop stage` and `reasonloop report`: one stage."""

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions, StageName
from flows.cli.orchestrated import orchestrated
from pipeline_lib.systems.apr.stages import APR
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.systems.prr.stages import PRR
from pipeline_lib.systems.table import STAGES


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
    loaded = params.load(options.given)
    uses_engine = STAGES[name] not in (*APR, *PRR)
    root = options.workspace.resolve()
    draws = "serve.engine" in STAGES[name].params
    with orchestrated(root, loaded, uses_engine=uses_engine, draws=draws) as run:
        if STAGES[name].is_one_task:
            from flows.one_stage import run_one_task_stage  # noqa: PLC0415 - see `orchestrated`

            run_one_task_stage(name, run)
        elif STAGES[name] in CLASSMATE:
            from flows.classmate import run_classmate_stage  # noqa: PLC0415 - see `orchestrated`

            run_classmate_stage(name, run)
        else:
            from flows.post_training import run_stage  # noqa: PLC0415 - see `orchestrated`

            run_stage(name, run)


def report(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Rewrite metrics.json, plots and report.html of a finished run.

    **Example:**

        reasonloop report --workspace /tmp/trial
    """
    stage("report", options=options, params=params)
