"""The rollout engine of a draw: a client of a served model, or the embedded engine in this process.

Both may need transformers, the second torch, which take seconds to import. They are imported when an
engine is opened, so that planning, and stages without a model, do not wait for them.
"""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.params.serve import ServeParams


def rollout_engine(
    model: str, serve: ServeParams, *, endpoint: Endpoint | None, batch_size: int
) -> ChatModel:
    """The client of ``model`` at ``endpoint``, or the shared embedded engine if that is None."""
    if endpoint is None:
        from pipeline_lib.engines.embedded.embedded_engine import shared_engine  # noqa: PLC0415

        return shared_engine(model, batch_size=batch_size)
    from pipeline_lib.engines.client.connect import connect  # noqa: PLC0415

    return connect(endpoint, serve, model=model)


@contextmanager
def started_engine(
    model: str, serve: ServeParams, *, log_folder: pathlib.Path, batch_size: int
) -> Iterator[ChatModel]:
    """The engine of ``serve``, for a command without a workspace; a server runs for the duration of the block.

    Args:
        model: A Hugging Face folder or hub id; with a server at a URL, the name that it has there.
        serve: The engine, its port or address, and its timeouts.
        log_folder: For the log of a server.
        batch_size: Paths decoded together by the embedded engine.

    Raises:
        BadInputError: no such model, or the server does not serve it.
        ReasonloopError: the engine does not start.
    """
    engine = engine_named(serve.engine)
    if engine.in_process:
        yield rollout_engine(model, serve, endpoint=None, batch_size=batch_size)
        return
    if engine.is_external:
        serve = serve.model_copy(update={"model": model})
    with serving_engine(serve, model=model, log_folder=log_folder) as running:
        yield rollout_engine(model, serve, endpoint=running.endpoint, batch_size=batch_size)
