"""Paths from any OpenAI-compatible server: vLLM, SGLang, our own, or one that somebody else runs.

The N paths of a problem are one request wherever the server is known to give its completions the
seeds s, s + 1, ... (`dialects`); else they are N requests with a seed each. Either way the seed in a
path's provenance draws that path again, alone.

Back-off after 429, 5xx and broken connections is the openai package's own. One thing is added: when
connections break because the engine died, its requests are sent once more after it is back.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from openai import APIConnectionError, AsyncOpenAI, OpenAIError

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.serving.connection import Connection
from pipeline_lib.serving.dialects import Dialect, chat_fields, completion_fields, seed_runs
from pipeline_lib.serving.endpoint import Endpoint
from pipeline_lib.serving.engines.table import dialect_of
from pipeline_lib.serving.response_parsing import BadAnswerError, read_answer


class DrawCancelledError(ReasonloopError):
    """`OpenAIModel.close` was called while paths were drawn."""


@dataclass(frozen=True, slots=True)
class ServerChat:
    """The server renders messages by a template of its own. Implements ChatFormat.

    For servers whose tokenizer cannot be had here: what the template does is then not known, and
    training on such paths cannot use the same one.
    """

    digest: str = "server"

    def render(self, user_message: str) -> str:
        """The message as it is; it goes to the chat route."""
        return user_message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """One call of `complete`: open connections, and what the server turned out to be."""

    connection: Connection
    client: AsyncOpenAI
    dialect: Dialect
    slots: asyncio.Semaphore
    waiting: asyncio.Lock
    """One of the requests of a dead engine asks whether it is back, not all of them."""


@dataclass(kw_only=True)
class OpenAIModel:
    """Implements ChatModel on a server. Calls from several threads are independent."""

    endpoint: Endpoint
    serve: ServeParams
    chat_format: ChatFormat | None = None
    """A tokenizer's template, or None for a plain completion model: prompts are rendered here and
    go to ``/v1/completions``. With `ServerChat` the user message goes to ``/v1/chat/completions``."""
    encode: Callable[[str], list[int]] | None = None
    """Token ids of a rendered prompt, none added. Needed where the server would add some (SGLang)."""
    _running: dict[asyncio.AbstractEventLoop, asyncio.Task[object]] = field(
        init=False, repr=False, default_factory=dict
    )
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    @property
    def engine(self) -> str:
        """What kind of engine answers at the endpoint."""
        return self.endpoint.engine

    @property
    def identity(self) -> str:
        """Digest of the served weights, or the server's model id."""
        return self.endpoint.identity

    @property
    def adapter(self) -> str | None:
        """``name@version`` of the LoRA adapter that is asked, if it is one."""
        return self.endpoint.adapter

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions; results stand in the order of requests and seeds.

        A request that fails for good is completions with FinishReason.ERROR. An interrupt or
        `close` closes the connections, at which servers stop generating.

        Raises:
            BadInputError: the model is not served at the endpoint, or the key is refused.
            EngineDownError: no answer for ``serve.start_timeout_s``; nothing more can be drawn.
            DrawCancelledError: `close` was called.
        """
        try:
            return asyncio.run(self._complete(requests, decoding))
        except asyncio.CancelledError:
            raise DrawCancelledError("the draw was cancelled; run again to go on") from None

    def close(self) -> None:
        """End the calls of `complete` that other threads are in."""
        with self._lock:
            for loop, task in self._running.items():
                loop.call_soon_threadsafe(task.cancel)

    async def _complete(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> list[list[Completion]]:
        async with self._session() as session:
            try:
                async with asyncio.TaskGroup() as group:
                    drawn = [
                        [
                            group.create_task(self._draw(session, request.prompt, run, decoding))
                            for run in seed_runs(request.seeds, session.dialect, decoding)
                        ]
                        for request in requests
                    ]
            except BaseExceptionGroup as failed:
                # One reason for all of them: the engine is gone.
                raise failed.exceptions[0] from None
            return [[one for run in runs for one in run.result()] for runs in drawn]

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[_Session]:
        connection = Connection(endpoint=self.endpoint, serve=self.serve)
        async with self._cancellable(), connection.open() as client:
            owner = await connection.first_contact(client)
            yield _Session(
                connection=connection,
                client=client,
                dialect=self._dialect(owner),
                slots=asyncio.Semaphore(self.serve.concurrency),
                waiting=asyncio.Lock(),
            )

    @asynccontextmanager
    async def _cancellable(self) -> AsyncIterator[None]:
        """Let `close` reach the task that runs inside."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._lock:
            self._running[loop] = task
        try:
            yield
        finally:
            with self._lock:
                del self._running[loop]

    def _dialect(self, owner: str) -> Dialect:
        dialect = dialect_of(self.endpoint.engine, owned_by=owner)
        rendered_here = not isinstance(self.chat_format, ServerChat)
        if dialect.prompts_as_ids and rendered_here and self.encode is None:
            raise BadInputError(
                f"{self.endpoint.base_url}: the server puts special tokens before a text; set "
                "serve.tokenizer to the model's Hugging Face folder or id"
            )
        return dialect

    async def _draw(
        self, session: _Session, prompt: str, seeds: Sequence[int], decoding: Decoding
    ) -> list[Completion]:
        """The completions of one run of seeds."""
        async with session.slots:
            drawn = await self._ask(session, prompt, seeds, decoding)
            # A server that does not know n, behind a name that should.
            for seed in seeds[len(drawn) :]:
                drawn += await self._ask(session, prompt, [seed], decoding)
        return drawn

    async def _ask(
        self, session: _Session, prompt: str, seeds: Sequence[int], decoding: Decoding
    ) -> list[Completion]:
        """The answer to one request; a failure is as many completions as were asked for."""
        connection = session.connection
        start = time.perf_counter()
        try:
            try:
                content = await self._answer(session, prompt, seeds, decoding)
            except APIConnectionError:
                async with session.waiting:
                    patience_s = self.serve.start_timeout_s
                    await connection.await_model(session.client, patience_s=patience_s)
                start = time.perf_counter()
                content = await self._answer(session, prompt, seeds, decoding)
            latency_s = time.perf_counter() - start
            # An alias at a foreign server answers under the model's full name.
            model = None if connection.is_external else self.endpoint.model
            return read_answer(content, wanted=len(seeds), model=model, latency_s=latency_s)
        except (OpenAIError, BadAnswerError, TimeoutError) as error:
            failed = Completion(
                text="",
                finish_reason=FinishReason.ERROR,
                prompt_tokens=0,
                completion_tokens=0,
                logprob=None,
                error=connection.said(error),
                latency_s=time.perf_counter() - start,
            )
            return [replace(failed, opens_request=place == 0) for place in range(len(seeds))]

    async def _answer(
        self, session: _Session, prompt: str, seeds: Sequence[int], decoding: Decoding
    ) -> bytes:
        """The body of the answer to one request, within its deadline."""
        client, dialect, model = session.client, session.dialect, self.endpoint.model
        async with asyncio.timeout(self.serve.request_timeout_s):
            if isinstance(self.chat_format, ServerChat):
                route = client.chat.completions.with_raw_response
                answer = await route.create(
                    model=model, **chat_fields(prompt, seeds, decoding, dialect)
                )
            else:
                ids = self.encode(prompt) if self.encode and dialect.prompts_as_ids else prompt
                answer = await client.completions.with_raw_response.create(
                    model=model, **completion_fields(ids, seeds, decoding, dialect)
                )
        content: bytes = answer.content
        return content
