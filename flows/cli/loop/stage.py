"""`reasonloop stage` and `reasonloop report`: one stage."""

from flows.cli.options import DEFAULT_PARAMS, DEFAULT_RUN, ParamsOptions, RunOptions, StageName
from flows.cli.orchestrated import orchestrated
from flows.cli.seeds import seed_folders, show_all_seeds
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

    In a workspace of several seeds show the differences of each, their mean, and intervals over problems and seeds.

    **Example:**

        reasonloop report --workspace /tmp/trial
    """
    root = options.workspace.resolve()
    if has_seeds := bool(seed_folders(root)):
        show_all_seeds(root, params.load(options.given))
    if not has_seeds or (root / "data").is_dir():
        stage("report", options=options, params=params)
