"""Training steps as events with their CPU and GPU seconds."""

import pathlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeline_lib.cpu_time import start_laps
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.store.reuse import record_begin
from pipeline_lib.telemetry import record_event, record_work
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.phases import Progress


@contextmanager
def record_steps(workspace: pathlib.Path, stage: str, *, key: str) -> Iterator[Progress]:
    """Yield the progress function of the training under ``key``.

    The time after the last step, such as closing a pool of verifiers, is recorded at the end. A training
    without steps, already done, records nothing.
    """
    lap, steps = start_laps(), 0
    # One for each process.
    gpus = min(1, visible_gpus()) * present_devices().world

    def spent() -> dict[str, Any]:
        cpu_seconds, wall_seconds = lap()
        return {"key": key, "cpu_seconds": cpu_seconds, "gpu_seconds": gpus * wall_seconds}

    def progress(step: int, total: int, _metrics: Mapping[str, float]) -> None:
        nonlocal steps
        if steps == 0:
            record_begin(workspace, stage, key=key)
        steps += 1
        record_work(workspace, stage, done=step, total=total, unit="step", **spent())

    yield progress
    if steps:
        record_event(workspace, "training-end", stage=stage, **spent())
