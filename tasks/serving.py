"""The rollout engine of a draw, running while shards are left to draw."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_lib.params.serve import ServeParams
from pipeline_lib.serving.endpoint import Endpoint
from pipeline_lib.serving.engines.table import engine_named
from pipeline_lib.serving.running_engine import serving_engine

LOGS = "logs"
"""Folder of the workspace that holds the engines' output."""


@contextmanager
def endpoint_for(
    serve: ServeParams, root: pathlib.Path, *, model: str, wanted: bool
) -> Iterator[Endpoint | None]:
    """The endpoint of ``model`` for the duration of the block; None: workers draw in process.

    ``wanted`` is False if no shard is left to draw. Not a task: the engine runs in the flow's process,
    for longer than one task.
    """
    if engine_named(serve.engine).in_process or not wanted:
        yield None
        return
    with serving_engine(serve, model=model, log_folder=root / LOGS) as engine:
        yield engine.endpoint
