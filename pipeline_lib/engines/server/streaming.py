"""Completions of the engine as they arrive, for a whole response or for a stream."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from fastapi import Request, Response

from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.generation import EngineStoppedError, Generation
from pipeline_lib.engines.server.delivery import (
    END_OF_STREAM,
    EventStream,
    event_text,
    json_response,
)
from pipeline_lib.engines.server.errors import as_api_error
from pipeline_lib.engines.server.responses import Envelope, Json, ResponseLayout, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResponse:
    """A request whose completions are being drawn, and the layout of its response."""

    engine: AsyncEngine
    generation: Generation
    layout: ResponseLayout
    envelope: Envelope
    usage: Usage

    async def json_response(self, request: Request) -> Response:
        """One JSON object, after all completions have ended."""
        try:
            return await json_response(request, self._collect())
        finally:
            self.release()

    async def _collect(self) -> Json:
        choices: list[Json] = []
        async for deltas in self.generation:
            self.usage.add(deltas)
            choices += map(self.layout.choice, deltas)
        choices.sort(key=lambda choice: int(choice["index"]))
        return self.envelope.wrap(choices, usage=self.usage.json())

    def event_stream(self, *, include_usage: bool) -> EventStream:
        """Server-sent events: chunks, usage if requested, then ``[DONE]``."""
        chunks = self._chunks(include_usage=include_usage)
        return EventStream(_texts(chunks), release=self.release)

    async def _chunks(self, *, include_usage: bool) -> AsyncIterator[list[Json]]:
        """The chunks of a stream in groups; a stopped engine ends it with an error chunk."""
        none = {"usage": None} if include_usage else {}

        def wrap(choices: Iterable[Json | None]) -> list[Json]:
            return [self.envelope.wrap([choice], **none) for choice in choices if choice]

        yield wrap(map(self.layout.first_chunk, range(self.generation.size)))
        try:
            async for deltas in self.generation:
                self.usage.add(deltas)
                yield wrap(map(self.layout.chunk, deltas))
        except EngineStoppedError as error:
            yield [as_api_error(error).body()]
            return
        if include_usage:
            yield [self.envelope.wrap([], usage=self.usage.json())]

    def release(self) -> None:
        """Cancel the unfinished completions."""
        if self.generation.unfinished:
            self.engine.cancel(self.generation)


async def _texts(chunks: AsyncIterator[list[Json]]) -> AsyncIterator[str]:
    async for together in chunks:
        if text := event_text(together):
            yield text
    yield END_OF_STREAM
