"""The stages of parallel latent branches: data, training and evaluation of a workspace."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from pipeline_lib.systems.prr.data.synthetic_folder import build_synthetic
from pipeline_lib.systems.prr.runs import EvaluationPaths, evaluate_on, train_on
from pipeline_lib.telemetry import record_work, step_recorder
from pipeline_lib.train.tracking.step_log import open_trackers

if TYPE_CHECKING:  # Run: no part of the stage's code, as params of other stages change no result
    from collections.abc import Mapping

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
    folders, params = run.workspace.prr, run.params.prr
    facts, report_to = params.model_dump(mode="json"), run.params.execution.report_to
    record = step_recorder(run.root, "prr-train")
    with open_trackers(report_to, folders.trackers, phase="prr", facts=facts) as log_step:

        def progress(step: int, total: int, metrics: Mapping[str, float]) -> None:
            record(step, total)
            log_step(step, total, metrics)

        train_on(_data(run), folders.model, params, seed=run.params.seed, progress=progress)


def evaluate(run: Run) -> None:
    """Write metrics, pictures and, for ARC, a submission, unless they exist with the same key."""
    evaluate_on(
        EvaluationPaths(
            data=_data(run),
            models=[run.workspace.prr.model],
            output=run.workspace.prr.evaluation,
        ),
        run.params.prr,
        seed=run.params.seed,
        progress=step_recorder(run.root, "prr-evaluate"),
    )


def _data(run: Run) -> pathlib.Path:
    """Folder of the puzzles: the given one, or the workspace's."""
    folder = run.params.prr.data.folder
    return pathlib.Path(folder).resolve() if folder else run.workspace.prr.data
