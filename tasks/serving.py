"""Serving: the engine of a draw, for as long as something is left to draw."""

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
    """Where ``model`` is served while the block runs; None: in the process that draws.

    ``wanted`` says whether there is anything left to draw.

    No task, since the engine must live in the flow's process, and longer than one task.
    """
    if engine_named(serve.engine).in_process or not wanted:
        yield None
        return
    with serving_engine(serve, model=model, log_folder=root / LOGS) as engine:
        yield engine.endpoint
