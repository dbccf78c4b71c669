"""The rollout engine of a draw."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.params.serve import ServeParams
from tasks.gpu import gpu_slot

LOGS = "logs"
"""Folder of the workspace with the engines' logs."""


def draws_in_workers(serve: ServeParams) -> bool:
    """True if each worker computes with the policy itself, on its GPU if it has one."""
    return engine_named(serve.engine).in_process


@contextmanager
def endpoint_for(
    serve: ServeParams, root: pathlib.Path, *, model: str, wanted: bool, in_ray: bool
) -> Iterator[Endpoint | None]:
    """Yield the endpoint of ``model``; None if workers sample in process or ``wanted`` is False.

    Holds for the block the GPUs of a server, and those of threads that draw; workers ``in_ray`` hold their own.

    Not a task: the engine is a child of the flow's process and outlives single tasks.
    """
    in_process = draws_in_workers(serve)
    elsewhere = engine_named(serve.engine).is_external or (in_ray and in_process)
    with gpu_slot(wanted=wanted and not elsewhere, gpus=None if in_process else serve.gpus):
        if in_process or not wanted:
            yield None
            if wanted and not in_ray and visible_gpus():
                from pipeline_lib.engines.embedded.embedded_engine import (  # noqa: PLC0415 - seconds to import
                    release_engine,
                )

                release_engine()  # of threads, before a training takes the memory
            return
        with serving_engine(serve, model=model, log_folder=root / LOGS) as engine:
            yield engine.endpoint
