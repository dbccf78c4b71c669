"""Entry points of the deployments in prefect.yaml.

Each resolves its parameters, checks them, enters the run guard, and calls the flow that the command calls. So a
worker's run has its own Ray, the task runner of its params, and the refusals of the command. A deployment names a
workspace, a profile and overrides, as the command does, so that params.yaml stays the one source of settings.
"""

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import yaml
from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from pydantic import Field

from flows.post_training import run_post_training
from flows.run.admission import check_run
from flows.run.guard import run_guard
from flows.server import server
from flows.system import run_stage
from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run

Override = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_.]*=")]
"""KEY=VALUE, as in train.lr=1e-4. Prefect's server refuses other text."""


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
    with _entered(resolved_run(workspace, profile, overrides, run)) as resolved:
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
    with _entered(resolved_run(workspace, profile, overrides, run)) as resolved:
        run_stage("evaluate", resolved)
        run_stage("report", resolved)


@contextmanager
def _entered(run: Run) -> Iterator[Run]:
    check_run(LOOP, run)
    with run_guard(LOOP, run):
        create_markdown_artifact(described(run), key="params", description="params of this run")
        yield run


def resolved_run(
    workspace: pathlib.Path | None,
    profile: str | None,
    overrides: Sequence[str],
    run: Run | None,
) -> Run:
    """The run that a deployment's parameters ask for, with an absolute workspace and checked params.

    Raises:
        BadInputError: both a run and other parameters, or params that cannot be used.
    """
    if run is None:
        params = load_params(profile=profile, overrides=overrides)
        return Run(root=(workspace or pathlib.Path()).expanduser().resolve(), params=params)
    if workspace or profile or overrides:
        raise BadInputError(
            "run: given together with workspace, profile or overrides; leave one of them out"
        )
    return run.model_copy(update={"root": run.root.expanduser().resolve()})


def described(run: Run) -> str:
    """Workspace and params of ``run`` in Markdown, for the artifact of a flow run."""
    params = yaml.safe_dump(run.params.model_dump(mode="json"), sort_keys=False, width=100)
    return f"Workspace `{run.root}`\n\n```yaml\n{params}```\n"
