"""Concurrent requests to one server in one event loop: whole completions, and streamed ones."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from openai import APIConnectionError, APIError, OpenAIError

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.engines.client.connection import Connection
from pipeline_lib.engines.client.response_parsing import (
    BadResponseError,
    BrokenStreamError,
    OnDelta,
    StreamReader,
    parse_completions,
)
from pipeline_lib.engines.known.engine import Dialect

Complete = Callable[[Request, Decoding], Coroutine[object, object, list[Completion]]]
"""The completions of a request, in the order of its seeds."""
OnDrawn = Callable[[Sequence[Completion]], None]
"""Called with the completions of each part of a request that is sent by itself, when it has ended."""
_T = TypeVar("_T")
_FAILURES = (OpenAIError, BadResponseError, TimeoutError)


def ignore_drawn(_drawn: Sequence[Completion]) -> None:
    """An `OnDrawn` that does nothing."""


def complete_all(
    opening: AbstractAsyncContextManager[Any], requests: Sequence[Request], decoding: Decoding
) -> list[list[Completion]]:
    """The completions of all requests by a session that is opened for them, in an event loop of its own."""

    async def draw_all() -> list[list[Completion]]:
        async with opening as session:
            return await gather_all([session.complete(request, decoding) for request in requests])

    return asyncio.run(draw_all())


async def gather_all(running: Sequence[Coroutine[object, object, _T]]) -> list[_T]:
    """The results in order; the first failure cancels the others and is raised, not a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in running]
    except BaseExceptionGroup as failed:
        # Requests that fail together fail for one reason: the engine is down.
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Open connections to a server, which stops drawing what is cancelled, and its dialect. Implements Draws.

    A request that fails is a completion with an error.
    """

    connection: Connection
    dialect: Dialect
    by_chat: bool
    """Prompts are messages as JSON, for the chat route."""
    encode: Callable[[str], list[int]] | None
    """Token ids of a prompt, which are sent; None: the text is."""
    slots: asyncio.Semaphore
    """One per request in flight."""

    async def complete(
        self, request: Request, decoding: Decoding, on_drawn: OnDrawn = ignore_drawn
    ) -> list[Completion]:
        """The completions of a request, in the order of its seeds; ``on_drawn`` is called for each HTTP request.

        Errors as `Connection.await_model`, after a break.
        """
        runs = self.dialect.split(request.seeds, decoding)
        drawn = await gather_all(
            [self._draw(request.prompt, run, decoding, on_drawn) for run in runs]
        )
        return [one for run in drawn for one in run]

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion; errors as `complete`."""
        [drawn] = await self.complete(Request(prompt=prompt, seeds=[seed]), decoding)
        return drawn

    @property
    def names_stops(self) -> bool:
        """As the server's dialect says; False for servers that are not known."""
        return self.dialect.names_stops

    @property
    def retries(self) -> int:
        """Requests that were sent once more after a restart."""
        return self.connection.retries

    async def stream(self, request: Request, decoding: Decoding, on_delta: OnDelta) -> Completion:
        """The completion of a request with one seed, delivered as it is drawn.

        A break before the first text is retried once, as in `complete`; a later one is an error, since the
        text that was delivered cannot be taken back. The deltas are a callback and no iterator: the
        deadline must cancel the request, and never its reader.
        """
        [seed], prompt = request.seeds, request.prompt
        async with self.slots:
            start = time.perf_counter()
            reader = self._reader(on_delta)
            await self.connection.admit()
            try:
                try:
                    return await self._read(prompt, seed, decoding, reader)
                except (OpenAIError, BrokenStreamError) as error:
                    if reader.begun or not _is_break(error):
                        raise
                    await self.connection.await_restart()
                    return await self._read(prompt, seed, decoding, self._reader(on_delta))
            except _FAILURES as error:
                return self._failed(error, latency_s=time.perf_counter() - start)

    async def check(self) -> None:
        """Return if the engine lists its model now. EngineDownError: it does not."""
        await self.connection.await_model(patience_s=0.0)

    async def _draw(
        self, prompt: str, seeds: Sequence[int], decoding: Decoding, on_drawn: OnDrawn
    ) -> list[Completion]:
        """The completions of one request."""
        async with self.slots:
            drawn = await self._request(prompt, seeds, decoding)
            # A server that ignores n, despite its owner's name.
            for seed in seeds[len(drawn) :]:
                drawn += await self._request(prompt, [seed], decoding)
        on_drawn(drawn)
        return drawn

    async def _request(
        self, prompt: str, seeds: Sequence[int], decoding: Decoding
    ) -> list[Completion]:
        """The completions of one HTTP request; after a failure, one with an error per seed."""
        await self.connection.admit()
        start = time.perf_counter()
        try:
            try:
                content = await self._post(prompt, seeds, decoding)
            except APIConnectionError:
                await self.connection.await_restart()
                start = time.perf_counter()
                content = await self._post(prompt, seeds, decoding)
            self.connection.end_outage()
            latency_s = time.perf_counter() - start
            model = self._expected_model
            return parse_completions(content, wanted=len(seeds), model=model, latency_s=latency_s)
        except _FAILURES as error:
            failed = self._failed(error, latency_s=time.perf_counter() - start)
            return [replace(failed, opens_request=place == 0) for place in range(len(seeds))]

    @property
    def _expected_model(self) -> str | None:
        """None for external servers, which answer aliases under the model's full name."""
        return None if self.connection.is_external else self.connection.endpoint.model

    def _failed(self, error: Exception, *, latency_s: float) -> Completion:
        reason = self.connection.describe(error)
        return Completion.failed(reason, latency_s=latency_s, opens_request=True)

    def _reader(self, on_delta: OnDelta) -> StreamReader:
        return StreamReader(model=self._expected_model, on_delta=on_delta)

    async def _post(self, prompt: str, seeds: Sequence[int], decoding: Decoding) -> bytes:
        """The response body of one HTTP request, within its deadline."""
        fields = self._fields(prompt, seeds, decoding)
        async with asyncio.timeout(self.connection.serve.request_timeout_s):
            response = await self._route.with_raw_response.create(**fields)
            return bytes(response.content)

    async def _read(
        self, prompt: str, seed: int, decoding: Decoding, reader: StreamReader
    ) -> Completion:
        """The completion of one streamed response, within its deadline."""
        start = time.perf_counter()
        fields = self._fields(prompt, [seed], decoding)
        # Nothing here reads probabilities and ids, which multiply what is sent; SGLang's chat refuses ids.
        fields.pop("logprobs", None)
        fields["extra_body"].pop("return_token_ids", None)
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
        async with asyncio.timeout(self.connection.serve.request_timeout_s):
            chunks = await self._route.create(**fields)
            try:
                async for chunk in chunks:
                    reader.read(chunk)
            except ValueError as error:
                raise BadResponseError(f"the stream cannot be read: {error}") from error
            finally:
                await chunks.close()
        drawn = reader.completion(latency_s=time.perf_counter() - start)
        self.connection.end_outage()
        return drawn

    @property
    def _route(self) -> Any:
        """The package's resource of the route."""
        client = self.connection.client
        return client.chat.completions if self.by_chat else client.completions

    def _fields(self, prompt: str, seeds: Sequence[int], decoding: Decoding) -> dict[str, Any]:
        """The body of a request."""
        model = {"model": self.connection.endpoint.model}
        if self.by_chat:
            return model | self.dialect.chat(json.loads(prompt), seeds, decoding)
        ids = self.encode(prompt) if self.encode else prompt
        return model | self.dialect.completion(ids, seeds, decoding)


def _is_break(error: Exception) -> bool:
    """True for a connection or stream that broke; false for a request that was refused."""
    # The package raises an error within a stream as APIError itself, statuses as subclasses.
    return isinstance(error, APIConnectionError | BrokenStreamError) or type(error) is APIError
