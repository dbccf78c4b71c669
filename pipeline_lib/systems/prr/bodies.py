"""The stages of parallel latent branches: data, trainings and evaluation of a workspace."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from pipeline_lib.params.prr import PrrParams
from pipeline_lib.systems.prr.data.synthetic import build_synthetic
from pipeline_lib.systems.prr.evaluation_folder import evaluate_on
from pipeline_lib.systems.prr.model.branches import core_passes
from pipeline_lib.systems.prr.training.train import train_on
from pipeline_lib.telemetry import record_work, step_recorder

if TYPE_CHECKING:  # Run: no part of the stage's code, as params of other stages change no result
    from pipeline_lib.systems.stage import Run


def make_data(run: Run) -> None:
    """Generate the synthetic task, unless it exists or a folder is given."""
    data, params = run.workspace.prr.data, run.params.prr.data
    # dvc.yaml lists it as an output for every task.
    data.mkdir(parents=True, exist_ok=True)
    if params.folder is None:
        build_synthetic(params, data, seed=run.params.seed)
    record_work(run.root, "prr-data", done=1, total=1)


def train(run: Run) -> None:
    """Train, or resume an interrupted training."""
    _train(run, run.workspace.prr.model, run.params.prr, stage="prr-train", phase="prr")


def train_control(run: Run) -> None:
    """Train, or resume, the control; without one its folder holds nothing new."""
    folder, params = run.workspace.prr.control, control_params(run.params.prr)
    if params is None:
        # dvc.yaml lists it as an output.
        folder.mkdir(parents=True, exist_ok=True)
        return
    _train(run, folder, params, stage="prr-control", phase="prr-control")


def control_params(params: PrrParams) -> PrrParams | None:
    """Params of the control: the same model with one branch, trained for as many core passes.

    A step takes as many rows, of fewer core passes each, so there are more steps: K times as many, but for the
    passes that score branches. Data, order, rates and seed are the same. None without a control, or if the model has
    one branch itself.
    """
    model, train = params.model, params.train
    if not params.control or model.num_branches == 1:
        return None
    one = model.model_copy(update={"num_branches": 1})
    ratio = core_passes(model, model.steps) / core_passes(one, one.steps)
    longer = train.model_copy(update={"steps": round(train.steps * ratio)})
    return params.model_copy(update={"model": one, "train": longer})


def _train(run: Run, output: pathlib.Path, params: PrrParams, *, stage: str, phase: str) -> None:
    train_on(
        _data(run),
        output,
        params,
        seed=run.params.seed,
        trackers=run.workspace.prr.trackers,
        report_to=run.params.execution.report_to,
        phase=phase,
        progress=step_recorder(run.root, stage),
    )


def evaluate(run: Run) -> None:
    """Write the study, pictures and, for ARC, a submission, unless they exist with the same key."""
    folders = run.workspace.prr
    evaluate_on(
        _data(run),
        [folders.model],
        folders.reports,
        run.params,
        control=None if control_params(run.params.prr) is None else folders.control,
        progress=step_recorder(run.root, "prr-evaluate"),
    )


def _data(run: Run) -> pathlib.Path:
    """Folder of the puzzles: the given one, or the workspace's."""
    folder = run.params.prr.data.folder
    return pathlib.Path(folder).resolve() if folder else run.workspace.prr.data
