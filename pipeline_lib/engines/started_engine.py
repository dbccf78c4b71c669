"""The rollout engine of a draw: a client of a served model, or the embedded engine in this process.

Both may need transformers, the first openai, the second torch, which take seconds to import. They are imported
when an engine is opened, so that planning, and stages without a model, do not wait for them.
"""

import functools
import pathlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipeline_lib.engines.chat_model import ChatModel
from pipeline_lib.engines.identity import Endpoint, model_identity
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.model_config import declared_context
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.params.serve import ServeParams

if TYPE_CHECKING:
    from pipeline_lib.engines.client.client import OpenAIModel


def connect(endpoint: Endpoint, serve: ServeParams, *, model: str) -> "OpenAIModel":
    """The client of the model at ``endpoint``.

    Prompts are rendered by the tokenizer of ``model``, a Hugging Face folder or hub id; for an
    external server by ``serve.tokenizer``, or by the server itself if that is null.

    Raises:
        BadInputError: the tokenizer cannot be loaded.
    """
    from pipeline_lib.engines.client.client import OpenAIModel, ServerChat  # noqa: PLC0415 - see above

    source = serve.tokenizer if engine_named(endpoint.engine).is_external else model
    if source is None:
        return OpenAIModel(endpoint=endpoint, serve=serve, chat_format=ServerChat())
    from pipeline_lib.engines.pretrained import chat_format_of  # noqa: PLC0415 - see above

    tokenizer = _cached_tokenizer(source, model_identity(source))
    lock = threading.Lock()

    def encode(text: str) -> list[int]:
        with lock:  # tokenizers are not thread-safe
            return encode_prompt(tokenizer, text)

    return OpenAIModel(
        endpoint=endpoint,
        serve=serve,
        chat_format=chat_format_of(tokenizer),
        encode=None if serve.send_text else encode,
        context_tokens=declared_context(pathlib.Path(source)),
    )


@functools.lru_cache(maxsize=2)
def _cached_tokenizer(source: str, _identity: str) -> Any:
    """Read once per process, and again if the content behind the name has changed."""
    from pipeline_lib.engines.pretrained import load_tokenizer  # noqa: PLC0415 - see above

    return load_tokenizer(source)


def rollout_engine(
    model: str, serve: ServeParams, *, endpoint: Endpoint | None, batch_size: int | None
) -> ChatModel:
    """The client of ``model`` at ``endpoint``, or the shared embedded engine if that is None."""
    if endpoint is None:
        from pipeline_lib.engines.embedded.embedded_engine import shared_engine  # noqa: PLC0415

        return shared_engine(model, batch_size=batch_size)

    return connect(endpoint, serve, model=model)


@contextmanager
def started_engine(
    model: str, serve: ServeParams, *, log_folder: pathlib.Path, batch_size: int | None
) -> Iterator[ChatModel]:
    """The engine of ``serve``, for a command without a workspace; a server runs for the duration of the block.

    With a server at a URL, ``model`` is the name that it has there.

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
