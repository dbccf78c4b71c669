"""The stages of reinforcement learning of both models."""

import pathlib

from pipeline_lib.systems.apr.model_record import read_chosen
from pipeline_lib.systems.apr.own_data import on_own_task
from pipeline_lib.systems.apr.rl import train_by_rl
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder
from pipeline_lib.train.tracking.trackers import Trackers


def train_parallel(run: Run) -> None:
    """Train the parallel model on its rollouts, or resume an interrupted training."""
    folders = run.workspace.apr
    _train(run, folders.parallel, folders.parallel_rl, stage="apr-rl")


def train_serial(run: Run) -> None:
    """Train the serial model for as many steps."""
    folders = run.workspace.apr
    _train(run, folders.serial, folders.serial_rl, stage="apr-serial-rl")


def train_terse(run: Run) -> None:
    """Train the terse serial model for as many steps, if there is one."""
    folders = run.workspace.apr
    _train(run, folders.terse, folders.terse_rl, stage="apr-terse-rl")


def _train(run: Run, model: pathlib.Path, output: pathlib.Path, *, stage: str) -> None:
    rl, folders = run.params.apr.rl, run.workspace.apr
    if not rl.steps or not any(model.iterdir()):
        # An output in dvc.yaml, with or without a training.
        output.mkdir(parents=True, exist_ok=True)
        return
    chosen = read_chosen(folders.valid_reports, children=rl.children, tokens=rl.tokens)

    train_by_rl(
        model,
        folders.data,
        output,
        rl.model_copy(update={"children": chosen.parallel, "tokens": chosen.serial}),
        seed=run.params.seed,
        verify=on_own_task(run.params).verify,
        lora=run.params.apr.model.lora,
        serve=run.params.serve,
        progress=step_recorder(run.root, stage),
        trackers=Trackers.of(run.params.execution, run.workspace.trackers(stage)),
        replaces=True,
    )
