"""The stages of a parallel and of a serial model."""

import pathlib

from pipeline_lib.systems.apr.countdown.lines import Kind
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


def _train(run: Run, kind: Kind, output: pathlib.Path, *, stage: str) -> None:
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
