"""The client of an endpoint, with the chat format and tokenizer that fit the served model.

transformers, which takes seconds to import, is imported where a tokenizer is read.
"""

import functools
import pathlib
import threading
from typing import TYPE_CHECKING

from pipeline_lib.engines.client.client import OpenAIModel, ServerChat
from pipeline_lib.engines.identity import Endpoint, model_identity
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.model_config import declared_context
from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.params.serve import ServeParams

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def connect(endpoint: Endpoint, serve: ServeParams, *, model: str) -> OpenAIModel:
    """The client of the model at ``endpoint``.

    Prompts are rendered by the tokenizer of ``model``, a Hugging Face folder or hub id; for an
    external server by ``serve.tokenizer``, or by the server itself if that is null.

    Raises:
        BadInputError: the tokenizer cannot be loaded.
    """
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
        encode=encode,
        context_tokens=declared_context(pathlib.Path(source)),
    )


@functools.lru_cache(maxsize=2)
def _cached_tokenizer(source: str, _identity: str) -> "PreTrainedTokenizerBase":
    """Read once per process, and again if the content behind the name has changed."""
    from pipeline_lib.engines.pretrained import load_tokenizer  # noqa: PLC0415 - see above

    return load_tokenizer(source)
