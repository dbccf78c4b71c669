"""The rollout engine of a draw."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

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
    serve: ServeParams, root: pathlib.Path, *, model: str, wanted: bool
) -> Iterator[Endpoint | None]:
    """Yield the endpoint of ``model``; None if workers sample in process or ``wanted`` is False.

    Holds the slot of the GPU for the block, whichever process has the model.

    Not a task: the engine is a child of the flow's process and outlives single tasks.
    """
    external = engine_named(serve.engine).is_external
    with gpu_slot(wanted=wanted and not external):
        if draws_in_workers(serve) or not wanted:
            yield None
            return
        with serving_engine(serve, model=model, log_folder=root / LOGS) as engine:
            yield engine.endpoint
