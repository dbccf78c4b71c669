"""Judged paths become training data, and the data a better policy."""

import pathlib
from typing import Literal

from prefect import flow

from flows.runners import RunSettings
from pipeline_lib.telemetry import timed_stage
from tasks.traindata import BuildJob, build_traindata
from tasks.training import TrainJob, train_round

Part = Literal["build", "train"]
BOTH: tuple[Part, Part] = ("build", "train")


@flow(name="train-policy", flow_run_name="train-policy-round-{round_number}")
def train_policy(
    settings: RunSettings, round_number: int, start: pathlib.Path, parts: tuple[Part, ...] = BOTH
) -> None:
    """Build from the verdicts of a round and train from ``start``, or one of the two."""
    params, workspace = settings.params, settings.workspace
    folders = workspace.round_folders(round_number)
    if "build" in parts:
        with timed_stage(settings.root, "build", draw=f"round-{round_number}"):
            job = BuildJob(
                workspace=workspace,
                folders=folders,
                method=params.train.method,
                model=start,
                validation_fraction=params.bootstrap.validation_fraction,
            )
            build_traindata(job, params.build, seed=params.seed)
    if "train" in parts:
        with timed_stage(settings.root, "train", draw=f"round-{round_number}"):
            train_round(
                TrainJob(
                    workspace=workspace,
                    start=start,
                    traindata=folders.traindata,
                    output=workspace.policy(round_number, rounds=params.rounds),
                    round_number=round_number,
                    max_new_tokens=params.sample.max_new_tokens,
                    serve=params.serve,
                    report_to=params.execution.report_to,
                ),
                params.train,
                params.verify,
                seed=params.seed,
            )
