"""`reasonloop apr run`."""

import pathlib

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_SEEDS,
    DEFAULT_WORKSPACE,
    ParamsOptions,
    SeedOptions,
    WorkspaceOptions,
)
from flows.cli.orchestrated import run_whole
from flows.cli.seeds import run_each
from flows.cli.tables import print_evaluation
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.apr.stages import APR


def run(
    *,
    options: WorkspaceOptions = DEFAULT_WORKSPACE,
    params: ParamsOptions = DEFAULT_PARAMS,
    seeds: SeedOptions = DEFAULT_SEEDS,
) -> None:
    """Run data, both trainings of a parallel and a serial model, and the comparison as one flow in a workspace.

    The condition of each model is the most accurate one on the valid problems. Finished stages are reused, so the
    same command resumes a broken run.

    **Examples:**

        reasonloop apr run
        reasonloop apr run --workspace /tmp/trial --set apr.sft.tokens=4000000
        reasonloop apr run --workspace /tmp/trial --seeds 7,8,9
    """
    run_each(APR.name, options, params, seeds, _run)


def _run(root: pathlib.Path, params: Params) -> None:
    run = run_whole(APR, root, params)
    folder = run.workspace.apr.reports
    print_evaluation(folder)
