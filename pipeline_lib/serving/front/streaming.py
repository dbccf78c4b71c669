"""Delivery of completions, whole or as server-sent events; a disconnect cancels the request."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from pipeline_lib.serving.front.async_engine import AsyncEngine
from pipeline_lib.serving.front.errors import ApiError
from pipeline_lib.serving.front.generation import EngineStoppedError, Generation
from pipeline_lib.serving.front.responses import Envelope, Json, ResponseLayout, Usage

# Never received; the status that other servers log in this case.
_CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResponse:
    """A request whose completions are being drawn, and the layout of its response."""

    engine: AsyncEngine
    generation: Generation
    layout: ResponseLayout
    envelope: Envelope
    usage: Usage

    async def json_response(self, request: Request) -> Response:
        """One JSON object, after all completions have ended.

        Raises:
            ApiError: 500 or 503; the engine has stopped.
        """
        drawing = asyncio.ensure_future(self._collect())
        disconnect = asyncio.ensure_future(_await_disconnect(request))
        try:
            await asyncio.wait({drawing, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            return (
                JSONResponse(drawing.result())
                if drawing.done()
                else Response(None, _CLIENT_CLOSED_REQUEST)
            )
        finally:
            drawing.cancel()
            disconnect.cancel()
            self.release()

    async def _collect(self) -> Json:
        choices: list[Json] = []
        try:
            async for deltas in self.generation:
                self.usage.add(deltas)
                choices += map(self.layout.choice, deltas)
        except EngineStoppedError as error:
            raise stopped_error(error) from error
        choices.sort(key=lambda choice: int(choice["index"]))
        return self.envelope.wrap(choices, usage=self.usage.json())

    def event_stream(self, *, include_usage: bool) -> StreamingResponse:
        """Server-sent events: chunks, usage if requested, then ``[DONE]``."""
        return _Events(self, include_usage=include_usage)

    async def chunks(self, *, include_usage: bool) -> AsyncIterator[list[Json]]:
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
            yield [stopped_error(error).body()]
            return
        if include_usage:
            yield [self.envelope.wrap([], usage=self.usage.json())]

    def release(self) -> None:
        """Cancel the unfinished completions."""
        if self.generation.unfinished:
            self.engine.cancel(self.generation)


class _Events(StreamingResponse):
    """A stream that cancels its completions however it ends, also before its first event."""

    def __init__(self, pending: PendingResponse, *, include_usage: bool) -> None:
        self._pending = pending
        super().__init__(
            _events(pending.chunks(include_usage=include_usage)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache"},
        )

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._pending.release()


async def _events(chunks: AsyncIterator[list[Json]]) -> AsyncIterator[str]:
    """Chunks that arrive together are sent in one write, which costs more than the events in it."""
    async for together in chunks:
        lines = (json.dumps(chunk, ensure_ascii=False, separators=(",", ":")) for chunk in together)
        if text := "".join(f"data: {line}\n\n" for line in lines):
            yield text
    yield "data: [DONE]\n\n"


async def _await_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def stopped_error(error: EngineStoppedError) -> ApiError:
    """503 while the server is stopping, which clients may retry; 500 after a failure."""
    return ApiError(500 if error.failed else 503, str(error))
