"""ChatModel on any OpenAI-compatible server.

The N paths of a problem are one request if the server gives its completions the seeds s, s + 1, ...
(`Dialect`), otherwise N requests with one seed each. Either way the seed in a path's provenance
draws that path again, alone.

Retries after 429, 5xx and broken connections are the openai package's. One is added: when
connections break because the engine died, its requests are sent once more after its restart.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import (
    ChatFormat,
    Completion,
    Conversation,
    Decoding,
    Message,
    Request,
    Role,
)
from pipeline_lib.engines.client.connection import Connection
from pipeline_lib.engines.client.session import Session, complete_all
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.known.engine import Dialect
from pipeline_lib.engines.known.table import dialect_of
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.serve import ServeParams


@dataclass(frozen=True, slots=True)
class ServerChat:
    """The server renders conversations. Implements ChatFormat.

    For servers without a local tokenizer. Their template is unknown, so training on such paths
    cannot use it.
    """

    digest: str = "server"
    is_compact: bool = False

    def render(self, conversation: Conversation) -> str:
        """The ``messages`` of a request to the chat route, as JSON."""
        return json.dumps([turn.fields() for turn in conversation])

    @staticmethod
    def parse(prompt: str) -> list[Message]:
        """The conversation of a prompt that `render` made."""
        return [Message(**turn | {"role": Role(turn["role"])}) for turn in json.loads(prompt)]


@dataclass(kw_only=True)
class OpenAIModel:
    """Implements ChatModel on a server. Thread-safe."""

    endpoint: Endpoint
    serve: ServeParams
    chat_format: ChatFormat | None = None
    """A tokenizer's template, or None for a plain completion model: prompts are rendered here and
    sent to ``/v1/completions`` as token ids. With `ServerChat` messages are sent to ``/v1/chat/completions``."""
    encode: Callable[[str], list[int]] | None = None
    """Token ids of a rendered prompt, which are sent. None: its text is, except if `Dialect.ids_only`."""
    context_tokens: int | None = None
    """Of the served model; None: unknown."""

    arithmetic: str | None = None
    """No server reports it."""

    def __post_init__(self) -> None:
        self.engine, self.identity = self.endpoint.engine, self.endpoint.identity
        self.adapter = self.endpoint.adapter

    def room(self, prompt: str) -> int | None:
        """The context less the tokens of the prompt; None without a local tokenizer."""
        if self.context_tokens is None or self.encode is None:
            return None
        return self.context_tokens - len(self.encode(prompt))

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions, in the order of requests and seeds.

        A request that fails after its retries gives completions with FinishReason.ERROR. An interrupt closes the
        connections, at which servers stop generating. Errors as `Connection.await_model`.
        """
        return complete_all(self.open(), requests, decoding)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Session]:
        """Connections to the server for concurrent requests; `complete` without its own event loop."""
        connection = Connection(endpoint=self.endpoint, serve=self.serve)
        async with connection.client:
            yield Session(
                connection=connection,
                dialect=self._dialect(await connection.await_server()),
                by_chat=isinstance(self.chat_format, ServerChat),
                encode=self.encode,
                slots=asyncio.Semaphore(self.serve.concurrency),
            )

    def _dialect(self, owner: str) -> Dialect:
        dialect = dialect_of(self.endpoint.engine, owned_by=owner)
        rendered_here = not isinstance(self.chat_format, ServerChat)
        if dialect.ids_only and rendered_here and self.encode is None:
            raise BadInputError(
                f"{self.endpoint.base_url}: the server puts special tokens before a text; set "
                "serve.tokenizer to the model's Hugging Face folder or id"
            )
        return dialect
