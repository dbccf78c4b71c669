"""One round of training: from the tables that were built to the next policy."""

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prefect import task

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import TrainParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import round_seed
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.traindata.tables import MAIN_TABLE, WARM_START_TABLE
from pipeline_lib.training.methods import TrainingRequest, train_policy
from pipeline_lib.training.tracking import Trackers
from tasks.policies import TRAINING
from tasks.training_steps import recorded_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob:
    """What is trained from what."""

    workspace: Workspace
    start: pathlib.Path
    traindata: pathlib.Path
    output: pathlib.Path
    round_number: int
    max_new_tokens: int
    serve: ServeParams
    """The engine that draws the paths of an online method, if the policy does not do it itself."""
    report_to: Sequence[str] = ()
    """Who is told each step; no part of the key."""


@task(**TRAINING, task_run_name="train-{params.method}-round-{job.round_number}")
def train_round(job: TrainJob, params: TrainParams, verify: VerifyParams, *, seed: int) -> None:
    """Train the policy of a round, unless it is there; a broken training is continued."""
    # dvc.yaml names them as outputs, whatever the number of rounds.
    for folder in job.workspace.later_rounds:
        folder.mkdir(parents=True, exist_ok=True)
    problems = job.workspace.problems("train")
    seed = round_seed(seed, job.round_number)
    key = stage_key(
        __name__,
        params={
            "train": params.model_dump(exclude={"control"}),
            "verify": verify.model_dump(),
            "max_new_tokens": job.max_new_tokens,
            "round": job.round_number,
            "engine": _engine(job.serve) if params.rollouts == "endpoint" else None,
            "seed": seed,
        },
        inputs={
            "start": model_identity(str(job.start)),
            "traindata": manifests.read_manifest(job.traindata).digest,
            "problems": manifests.read_manifest(problems).digest,
        },
    )
    request = TrainingRequest(
        base=str(job.start),
        output=job.output,
        rows=_rows(job.traindata / MAIN_TABLE[params.method]),
        warm_start_rows=_rows(job.traindata / WARM_START_TABLE),
        problems=[Problem.from_row(row) for row in shards.iter_table(problems)],
        params=params,
        verify=verify,
        max_new_tokens=job.max_new_tokens,
        serve=job.serve,
        seed=seed,
        key=key,
        trackers=Trackers(
            names=job.report_to, folder=job.workspace.trackers(f"round-{job.round_number}")
        ),
    )
    with recorded_steps(job.workspace.root, "train", key=key) as progress:
        train_policy(replace(request, progress=progress))


def _engine(serve: ServeParams) -> dict[str, object]:
    """What of an engine can change the paths that it draws."""
    return {"name": serve.engine, "options": serve.options}


def _rows(table: pathlib.Path) -> list[dict[str, object]]:
    return shards.read_table(table) if table.is_dir() else []
