"""The main job: prepare, bootstrap, R rounds of sample, verify, build and train; evaluate, report.

The control is trained beside the rounds where there is a worker for it, and after them elsewhere.
"""

import pathlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext

from prefect import flow

from flows.control import begin_control, control, end_control
from flows.evaluate import evaluate, report
from flows.runners import RunSettings, cluster, task_runner
from flows.sample_and_verify import Draw, run_draw
from flows.sample_and_verify import Part as DrawPart
from flows.train_policy import train_policy
from pipeline_lib.telemetry import timed_stage
from tasks.bootstrapping import bootstrap_policy
from tasks.problems import prepare_problems


@flow(name="prepare", flow_run_name="prepare")
def prepare(settings: RunSettings) -> None:
    """The splits of the data set."""
    with timed_stage(settings.root, "prepare"):
        prepare_problems(settings.workspace, settings.params.prepare, seed=settings.params.seed)


@flow(name="bootstrap", flow_run_name="bootstrap")
def bootstrap(settings: RunSettings) -> None:
    """The base policy."""
    with timed_stage(settings.root, "bootstrap"):
        bootstrap_policy(settings.workspace, settings.params.bootstrap, seed=settings.params.seed)


@flow(name="post-training", flow_run_name="post-training-{settings.params.prepare.dataset}")
def post_training(settings: RunSettings) -> None:
    """The whole loop. What is done already, and still holds, is not done again."""
    prepare(settings)
    bootstrap(settings)
    run_draw(settings, _round_draw(settings, 1))
    begun = begin_control(settings)  # its budget follows from the first draw
    train_policy(settings, 1, settings.workspace.base)
    _later_rounds(settings)
    end_control(settings, begun)
    evaluate(settings)
    report(settings)


def run_post_training(settings: RunSettings) -> None:
    """Run the flow on the runner that the params ask for."""
    execution = settings.params.execution
    with cluster(execution):
        post_training.with_options(task_runner=task_runner(execution))(settings)


def _later_rounds(settings: RunSettings) -> None:
    for round_number in range(2, settings.params.rounds + 1):
        run_draw(settings, _round_draw(settings, round_number))
        train_policy(settings, round_number, _start_of(settings, round_number))


def _start_of(settings: RunSettings, round_number: int) -> pathlib.Path:
    """The policy that a round samples with and trains from."""
    workspace = settings.workspace
    if round_number == 1:
        return workspace.base
    return workspace.policy(round_number - 1, rounds=settings.params.rounds)


def _round_draw(settings: RunSettings, round_number: int) -> Draw:
    return Draw(
        name=f"round-{round_number}",
        seed_name=f"round-{round_number}",
        problems=settings.workspace.problems("train"),
        policy=_start_of(settings, round_number),
        folders=settings.workspace.round_folders(round_number),
        params=settings.params.sample,
    )


def _first_round(part: DrawPart) -> Callable[[RunSettings], None]:
    def run(settings: RunSettings) -> None:
        run_draw(settings, _round_draw(settings, 1), (part,))

    return run


def _build(settings: RunSettings) -> None:
    train_policy(settings, 1, settings.workspace.base, ("build",))


def _train(settings: RunSettings) -> None:
    """Round 1, then all of the later rounds: they sample with what this stage trains."""
    train_policy(settings, 1, settings.workspace.base, ("train",))
    _later_rounds(settings)


STAGES: Mapping[str, Callable[[RunSettings], None]] = {
    "prepare": prepare,
    "bootstrap": bootstrap,
    "sample": _first_round("sample"),
    "verify": _first_round("verify"),
    "build": _build,
    "train": _train,
    "control": control,
    "evaluate": evaluate,
    "report": report,
}
"""The stages of dvc.yaml, in order; together they are `post_training`."""


def run_stage(name: str, settings: RunSettings) -> None:
    """One stage alone, as DVC runs it."""
    with cluster(settings.params.execution) if _fans_out(name, settings) else nullcontext():
        STAGES[name](settings)


def _fans_out(name: str, settings: RunSettings) -> bool:
    """Whether a stage has shards; training has them in the rounds after the first."""
    later_rounds = name == "train" and settings.params.rounds > 1
    return later_rounds or name in {"sample", "verify", "evaluate"}
