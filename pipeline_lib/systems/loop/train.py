"""One round of training: from the tables of `build` to the next policy."""

import pathlib
from dataclasses import replace

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Path, Problem
from pipeline_lib.seeding import round_seed
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.systems.loop.training_steps import record_steps
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.methods import TrainingRequest, train_policy
from pipeline_lib.train.rows.builders import MAIN_TABLE, WARM_START_TABLE
from pipeline_lib.train.token_budget import weights_text
from pipeline_lib.train.tracking.trackers import Trackers


def train(run: Run) -> None:
    """Train the policy of a round, unless it exists; an interrupted training is resumed."""
    workspace, params, number = run.workspace, run.params, run.round_number
    # Outputs in dvc.yaml for any number of rounds.
    for folder in workspace.later_rounds:
        folder.mkdir(parents=True, exist_ok=True)
    problems, traindata = workspace.problems("train"), run.folders.traindata
    is_stored, paths = params.train.rollouts == "stored", run.folders.paths
    seed = round_seed(params.seed, number)
    key = stage_key(
        __name__,
        params={**training_settings(params), "round": number, "seed": seed},
        inputs={
            "start": model_identity(str(run.start)),
            "traindata": manifests.read_manifest(traindata).digest,
            "problems": manifests.read_manifest(problems).digest,
            **({"paths": manifests.read_manifest(paths).digest} if is_stored else {}),
        },
    )
    request = TrainingRequest(
        base=str(run.start),
        output=run.policy,
        rows=_rows(traindata / MAIN_TABLE[params.train.method]),
        warm_start_rows=_rows(traindata / WARM_START_TABLE),
        problems=[Problem.from_row(row) for row in shards.iter_table(problems)],
        params=params.train,
        verify=params.verify,
        max_new_tokens=params.sample.max_new_tokens,
        serve=params.serve,
        stored=[Path.from_row(row) for row in shards.iter_table(paths)] if is_stored else (),
        seed=seed,
        key=key,
        trackers=Trackers.of(params.execution, workspace.trackers(f"round-{number}")),
    )
    with record_steps(run.root, "train", key=key) as progress:
        train_policy(replace(request, progress=progress))
    if present_devices().is_main:
        weights = weights_text(manifests.read_manifest(run.policy).counts)
        record_event(run.root, "note", text=f"round {number}: trained weights {weights}")


def training_settings(params: Params) -> dict[str, object]:
    """The params that can change a training."""
    drawn_by = {"name": params.serve.engine, "options": params.serve.options}
    return {
        "train": params.train.model_dump(
            exclude={"control", "processes", "sharding", "max_logprob_gap"}
        ),
        "verify": params.verify.model_dump(),
        "max_new_tokens": params.sample.max_new_tokens,
        "engine": drawn_by if params.train.rollouts == "endpoint" else None,
    }


def _rows(table: pathlib.Path) -> list[dict[str, object]]:
    return shards.read_table(table) if table.is_dir() else []
