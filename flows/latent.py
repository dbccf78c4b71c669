"""Parallel latent branches (PRR): a task or a folder of puzzles, a model, its evaluation."""

from collections.abc import Callable, Mapping

from prefect import flow

from flows.runners import RunSettings
from pipeline_lib.telemetry import timed_stage
from tasks.latent import evaluate_latent_model, make_latent_data, train_latent_model


@flow(name="latent-data", flow_run_name="latent-data-{settings.params.latent.data.task}")
def latent_data(settings: RunSettings) -> None:
    """The puzzles."""
    with timed_stage(settings.root, "latent-data"):
        make_latent_data(settings.workspace, settings.params.latent.data, seed=settings.params.seed)


@flow(name="latent-train", flow_run_name="latent-train-{settings.params.latent.model.kind}")
def latent_train(settings: RunSettings) -> None:
    """The model."""
    with timed_stage(settings.root, "latent-train"):
        train_latent_model(
            settings.workspace,
            settings.params.latent,
            seed=settings.params.seed,
            report_to=settings.params.execution.report_to,
        )


@flow(name="latent-evaluate", flow_run_name="latent-evaluate-{settings.params.latent.model.kind}")
def latent_evaluate(settings: RunSettings) -> None:
    """What it can do."""
    with timed_stage(settings.root, "latent-evaluate"):
        evaluate_latent_model(settings.workspace, settings.params.latent, seed=settings.params.seed)


@flow(name="latent", flow_run_name="latent-{settings.params.latent.data.task}")
def latent(settings: RunSettings) -> None:
    """All three. What is done already, and still holds, is not done again."""
    for stage in LATENT_FLOWS.values():
        stage(settings)


LATENT_FLOWS: Mapping[str, Callable[[RunSettings], None]] = {
    "latent-data": latent_data,
    "latent-train": latent_train,
    "latent-evaluate": latent_evaluate,
}
"""The stages of dvc.yaml, in order; together they are `latent`."""
