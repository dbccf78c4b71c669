"""`reasonloop stage` and `reasonloop report`: one stage of the loop."""

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions, StageName
from flows.cli.orchestrated import orchestrated
from flows.terminal import PlainConsole
from pipeline_lib.stages.latent import LATENT

console = PlainConsole()


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
    with orchestrated(options.workspace.resolve(), loaded, console) as run:
        if name in {one.name for one in LATENT}:
            from flows.latent import latent  # noqa: PLC0415 - see `orchestrated`

            latent(run, name)
        else:
            from flows.post_training import run_stage  # noqa: PLC0415 - see `orchestrated`

            run_stage(name, run)


def report(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Write metrics.json, plots and report.html of a finished run again.

    **Example:**

        reasonloop report --workspace /tmp/trial
    """
    stage("report", options=options, params=params)
