"""The stages of a parallel and of a serial model."""

import pathlib

from pipeline_lib.systems.apr.data_folder import trace_kinds
from pipeline_lib.systems.apr.sft import train_on_traces
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder
from pipeline_lib.train.tracking.trackers import Trackers


def train(run: Run) -> None:
    """Train the parallel model, or resume an interrupted training."""
    _train(run, "parallel", run.workspace.apr.parallel, stage="apr-train")


def train_serial(run: Run) -> None:
    """Train the serial model, of equal size, window and trained tokens."""
    _train(run, "serial", run.workspace.apr.serial, stage="apr-serial")


def train_terse(run: Run) -> None:
    """Train the terse serial model as long, where the task has its traces."""
    output = run.workspace.apr.terse
    if "terse" in trace_kinds(run.params.apr.data):
        _train(run, "terse", output, stage="apr-terse")
    else:
        # An output in dvc.yaml, with or without a training.
        output.mkdir(parents=True, exist_ok=True)


def _train(run: Run, kind: str, output: pathlib.Path, *, stage: str) -> None:
    train_on_traces(
        run.workspace.apr.data,
        kind,
        output,
        run.params.apr,
        seed=run.params.seed,
        progress=step_recorder(run.root, stage),
        trackers=Trackers.of(run.params.execution, run.workspace.trackers(stage)),
        replaces=True,
    )
