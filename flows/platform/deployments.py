"""Entry points of the deployments in prefect.yaml.

Each resolves its parameters, checks them, enters the run guard, and calls the flow that the command calls. So a
worker's run has its own Ray, the task runner of its params, and the refusals of the command.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from flows.post_training import run_post_training
from flows.run.admission import check_run
from flows.run.guard import run_guard
from flows.run.request import Override, RunRequest, described
from flows.server import server
from flows.system import run_stage
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run


@flow(name="post-training")
def post_training(
    *,
    workspace: pathlib.Path | None = None,
    profile: str | None = None,
    overrides: tuple[Override, ...] = (),
    run: Run | None = None,
) -> None:
    """The whole loop; work that is done under the same key is reused.

    Args:
        workspace: Folder of the run; relative to the worker's folder. Default: that folder.
        profile: The name of a profile, or a YAML file.
        overrides: KEY=VALUE over params.yaml and the profile, as in train.lr=1e-4.
        run: Workspace and all params, in place of the others.
    """
    request = RunRequest(run=run, workspace=workspace, profile=profile, overrides=overrides)
    with _entered(request) as resolved:
        run_post_training(resolved)
        url = server.report_url(resolved.root)
        report = resolved.workspace.reports / "report.html"
        create_link_artifact(url or report.as_uri(), link_text="report.html", key="report")


@flow(name="evaluate")
def evaluate(
    *,
    workspace: pathlib.Path | None = None,
    profile: str | None = None,
    overrides: tuple[Override, ...] = (),
    run: Run | None = None,
) -> None:
    """Draw base, control and policy of a finished run with the same seeds, and compare them.

    Args:
        workspace: Folder of the run; relative to the worker's folder. Default: that folder.
        profile: The name of a profile, or a YAML file.
        overrides: KEY=VALUE over params.yaml and the profile, as in evaluate.num_paths=16.
        run: Workspace and all params, in place of the others.
    """
    request = RunRequest(run=run, workspace=workspace, profile=profile, overrides=overrides)
    with _entered(request) as resolved:
        run_stage("evaluate", resolved)
        run_stage("report", resolved)


@contextmanager
def _entered(request: RunRequest) -> Iterator[Run]:
    run = request.resolved()
    check_run(LOOP, run)
    with run_guard(LOOP, run):
        create_markdown_artifact(described(run), key="params", description="params of this run")
        yield run
