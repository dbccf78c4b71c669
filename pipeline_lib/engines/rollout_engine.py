"""The rollout engine of a draw: a client of a served model, or the embedded engine in this process.

Both may need transformers, the second torch, which take seconds to import. They are imported when an
engine is opened, so that planning, and stages without a model, do not wait for them.
"""

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.endpoint import Endpoint
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
