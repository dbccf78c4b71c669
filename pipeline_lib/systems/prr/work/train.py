"""The stages that train the model and its control."""

import pathlib

from pipeline_lib.params.prr import PrrParams
from pipeline_lib.systems.prr.settings import control_params, puzzles_of
from pipeline_lib.systems.prr.training.train import train_on
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder


def train(run: Run) -> None:
    """Train, or resume an interrupted training."""
    _train(run, run.workspace.prr.model, run.params.prr, stage="prr-train", phase="prr")


def train_control(run: Run) -> None:
    """Train the control, or resume its training. Without a control in the params, only its folder is made."""
    folder, params = run.workspace.prr.control, control_params(run.params.prr)
    if params is None:
        # dvc.yaml lists it as an output.
        folder.mkdir(parents=True, exist_ok=True)
        return
    _train(run, folder, params, stage="prr-control", phase="prr-control")


def _train(run: Run, output: pathlib.Path, params: PrrParams, *, stage: str, phase: str) -> None:
    train_on(
        puzzles_of(run),
        output,
        params,
        seed=run.params.seed,
        trackers=run.workspace.prr.trackers,
        execution=run.params.execution,
        phase=phase,
        progress=step_recorder(run.root, stage),
    )
