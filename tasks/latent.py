"""Parallel latent branches: data, training and evaluation, each done once for what it depends on."""

import pathlib
from collections.abc import Mapping, Sequence

from prefect import task

from pipeline_lib.latent.made_folder import build_made
from pipeline_lib.latent.runs import EvaluationPlaces, evaluate_on, train_on
from pipeline_lib.params.latent import LatentDataParams, LatentParams
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.training.listeners import listening
from tasks.policies import PLAN, TRAINING


def latent_data(workspace: Workspace, params: LatentDataParams) -> pathlib.Path:
    """Where the puzzles are: a folder that is given, or the one that the workspace makes."""
    return pathlib.Path(params.folder).resolve() if params.folder else workspace.latent.data


@task(**PLAN, task_run_name="make-{params.task}")
def make_latent_data(workspace: Workspace, params: LatentDataParams, *, seed: int) -> None:
    """Make the task, unless it is there or a folder is given."""
    # dvc.yaml names it as an output, whatever the task.
    workspace.latent.data.mkdir(parents=True, exist_ok=True)
    if params.folder is None:
        build_made(params, workspace.latent.data, seed=seed)
    record_work(workspace.root, "latent-data", done=1, total=1)


@task(**TRAINING, task_run_name="train-{params.model.kind}")
def train_latent_model(
    workspace: Workspace, params: LatentParams, *, seed: int, report_to: Sequence[str] = ()
) -> None:
    """Train, unless it is done; a broken training is continued. ``report_to`` changes no result."""
    folders, facts = workspace.latent, params.model_dump(mode="json")
    with listening(report_to, folders.trackers, phase="latent", facts=facts) as tell:

        def progress(step: int, total: int, metrics: Mapping[str, float]) -> None:
            record_work(workspace.root, "latent-train", done=step, total=total, unit="step")
            tell(step, total, metrics)

        data = latent_data(workspace, params.data)
        train_on(data, folders.model, params, seed=seed, progress=progress)


@task(**TRAINING, task_run_name="evaluate-{params.model.kind}")
def evaluate_latent_model(workspace: Workspace, params: LatentParams, *, seed: int) -> None:
    """Figures, pictures and submission, unless they are there."""
    evaluate_on(
        EvaluationPlaces(
            data=latent_data(workspace, params.data),
            models=[workspace.latent.model],
            output=workspace.latent.evaluation,
        ),
        params,
        seed=seed,
        progress=lambda done, total: record_work(
            workspace.root, "latent-evaluate", done=done, total=total, unit="step"
        ),
    )
