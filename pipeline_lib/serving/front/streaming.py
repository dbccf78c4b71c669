"""Takes what is drawn to the client, whole or as a stream, and stops drawing when it is gone."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from pipeline_lib.serving.front.async_engine import LiveEngine
from pipeline_lib.serving.front.errors import ApiError
from pipeline_lib.serving.front.generation import EngineGoneError, Generation
from pipeline_lib.serving.front.responses import Envelope, Form, Json, Usage

# Nobody reads it; the number is that of other servers' logs.
_CLIENT_LEFT = 499


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One request whose completions are being drawn, and how its answer is written."""

    live: LiveEngine
    generation: Generation
    form: Form
    envelope: Envelope
    usage: Usage

    async def whole(self, request: Request) -> Response:
        """One JSON object when all completions have ended.

        Raises:
            ApiError: 500 or 503; the engine is gone.
        """
        drawing = asyncio.ensure_future(self._answer())
        leaving = asyncio.ensure_future(_leaving(request))
        try:
            await asyncio.wait({drawing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return (
                JSONResponse(drawing.result()) if drawing.done() else Response(None, _CLIENT_LEFT)
            )
        finally:
            drawing.cancel()
            leaving.cancel()
            self.release()

    async def _answer(self) -> Json:
        choices: list[Json] = []
        try:
            async for pieces in self.generation:
                self.usage.count(pieces)
                choices += map(self.form.whole, pieces)
        except EngineGoneError as error:
            raise engine_gone(error) from error
        choices.sort(key=lambda choice: int(choice["index"]))
        return self.envelope.around(choices, usage=self.usage.json())

    def stream(self, *, include_usage: bool) -> StreamingResponse:
        """Server-sent events: chunks, then the usage if it is wanted, then ``[DONE]``."""
        return _Events(self, include_usage=include_usage)

    async def chunks(self, *, include_usage: bool) -> AsyncIterator[list[Json]]:
        """The chunks of a stream; an engine that goes is told in one of them."""
        none = {"usage": None} if include_usage else {}

        def around(choices: Iterable[Json | None]) -> list[Json]:
            return [self.envelope.around([choice], **none) for choice in choices if choice]

        yield around(map(self.form.opening, range(self.generation.size)))
        try:
            async for pieces in self.generation:
                self.usage.count(pieces)
                yield around(map(self.form.part, pieces))
        except EngineGoneError as error:
            yield [engine_gone(error).body()]
            return
        if include_usage:
            yield [self.envelope.around([], usage=self.usage.json())]

    def release(self) -> None:
        """Give up what is not drawn yet."""
        if self.generation.going:
            self.live.cancel(self.generation)


class _Events(StreamingResponse):
    """A stream that gives its rows up however it ends, also before its first event."""

    def __init__(self, delivery: Delivery, *, include_usage: bool) -> None:
        self._delivery = delivery
        super().__init__(
            _events(delivery.chunks(include_usage=include_usage)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache"},
        )

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._delivery.release()


async def _events(chunks: AsyncIterator[list[Json]]) -> AsyncIterator[str]:
    """What comes together is sent together: a write costs more than the events in it."""
    async for together in chunks:
        lines = (json.dumps(chunk, ensure_ascii=False, separators=(",", ":")) for chunk in together)
        if text := "".join(f"data: {line}\n\n" for line in lines):
            yield text
    yield "data: [DONE]\n\n"


async def _leaving(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def engine_gone(error: EngineGoneError) -> ApiError:
    """What a client is told: another try helps when the server is only stopping."""
    return ApiError(500 if error.failed else 503, str(error))
