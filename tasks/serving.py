"""Serving: the engine of a draw, for as long as something is left to draw."""

import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipeline_lib.params import ServeParams
from pipeline_lib.serving.endpoint import Endpoint
from pipeline_lib.serving.engines import serving_engine
from tasks.sampling import SampleShard

LOGS = "logs"
"""Folder of the workspace that holds the engines' output."""


@contextmanager
def endpoint_for(
    serve: ServeParams, shards: Sequence[SampleShard], root: pathlib.Path
) -> Iterator[Endpoint | None]:
    """Where the shards' model is served while the block runs; None: in the process that draws.

    No task, since the engine must live in the flow's process, and longer than one task.
    """
    if serve.engine == "embedded" or all(shard.done for shard in shards):
        yield None
        return
    with serving_engine(serve, model=shards[0].plan.model, log_folder=root / LOGS) as engine:
        yield engine.endpoint
