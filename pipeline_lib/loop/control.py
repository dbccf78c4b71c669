"""The control beside the loop: what as much training without any paths makes of the base."""

import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from prefect import task

from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.problems.worked import worked_problems
from pipeline_lib.records import Problem
from pipeline_lib.serving.embedded import visible_gpus
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.checkpoints import work_folder
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import timed_stage
from pipeline_lib.training import policies
from pipeline_lib.training.compute import Tokens, planned_tokens
from pipeline_lib.training.control import ControlRequest, train_control
from pipeline_lib.training.phases import Schedule, Setting
from pipeline_lib.training.tracking import Trackers
from tasks.policies import TRAINING
from tasks.training_steps import recorded_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlJob:
    """The control of one run."""

    root: pathlib.Path
    rounds: int
    bootstrap: BootstrapParams
    train: TrainParams
    seed: int
    report_to: Sequence[str] = ()
    """No part of the key."""


@task(**TRAINING, task_run_name="train-control")
def train_control_policy(job: ControlJob) -> None:
    """Train the control, unless it is there or left out; a broken training is continued."""
    workspace, params = Workspace(job.root), job.train
    if not params.control:
        # dvc.yaml names it as an output, with or without a control.
        workspace.control.mkdir(parents=True, exist_ok=True)
        return
    # A given model has seen no worked problem of ours, so all that have a solution may be used.
    split = "bootstrap" if job.bootstrap.model is None else "train"
    problems = workspace.problems(split)
    budget, schedule = _planned(workspace, job).cost, _schedule(params)
    key = stage_key(
        __name__,
        params={
            "schedule": asdict(schedule),
            "lora": params.lora.model_dump(),
            "threads": params.threads,
            "base_is_given": job.bootstrap.model is not None,
            "validation_fraction": job.bootstrap.validation_fraction,
            "budget": budget,
            "seed": job.seed,
        },
        inputs={
            "base": model_identity(str(workspace.base)),
            "problems": manifests.read_manifest(problems).digest,
        },
    )
    if manifests.current(workspace.control, kind=policies.KIND, key=key):
        return
    trackers = Trackers(names=job.report_to, folder=workspace.trackers("control"))
    trackers.check()
    with (
        timed_stage(job.root, "control"),
        recorded_steps(job.root, "control", key=key) as progress,
    ):
        train_control(
            ControlRequest(
                base=workspace.base,
                base_is_given=job.bootstrap.model is not None,
                output=workspace.control,
                worked=worked_problems(
                    (Problem.from_row(row) for row in shards.iter_table(problems)),
                    validation_fraction=job.bootstrap.validation_fraction,
                    seed=job.seed,
                ),
                budget_tokens=budget,
                schedule=schedule,
                lora=params.lora,
                setting=Setting(
                    work=work_folder(workspace.control, key),
                    key=key,
                    seed=job.seed,
                    threads=params.threads,
                    progress=progress,
                    trackers=trackers,
                ),
            )
        )


def trains_on_gpu() -> bool:
    """Whether trainings share the memory of a GPU, so that one must follow the other."""
    return visible_gpus() > 0


def _planned(workspace: Workspace, job: ControlJob) -> Tokens:
    """What the loop takes if all its rounds draw as many tokens as the first."""
    counts = manifests.read_manifest(workspace.round_folders(1).paths).counts
    prompt, drawn = counts["prompt_tokens"], counts["completion_tokens"]
    a_round = Tokens(drawn=int(prompt + drawn)) + planned_tokens(
        job.train,
        prompt_tokens=prompt / counts["requests"],
        path_tokens=drawn / counts["rows"],
    )
    return sum([a_round] * job.rounds, Tokens())


def _schedule(params: TrainParams) -> Schedule:
    """The rate and the batch of the loop's own supervised steps; how many, the budget decides."""
    supervised = params.method is Method.SFT
    batch_size = params.batch_size if supervised else params.warm_start_batch_size
    return Schedule(
        steps=0,
        lr=params.lr if supervised else params.warm_start_lr,
        batch_size=batch_size,
        micro_batch_size=min(params.micro_batch_size or batch_size, batch_size),
        shape="cosine",
        warmup_fraction=params.warmup_fraction,
        checkpoint_every=params.checkpoint_every,
    )
