"""Delivery of responses: one JSON object, or server-sent events; a client that leaves cancels its request."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from pipeline_lib.engines.server.responses import Json

END_OF_STREAM = "data: [DONE]\n\n"
# Never received; the status that other servers log in this case.
_CLIENT_CLOSED_REQUEST = 499


def event_text(chunks: Iterable[Json]) -> str:
    """Chunks as events, for one write: a write costs more than the events in it."""
    lines = (json.dumps(chunk, ensure_ascii=False, separators=(",", ":")) for chunk in chunks)
    return "".join(f"data: {line}\n\n" for line in lines)


def comment_text(comment: str) -> str:
    """A line that clients ignore, and that keeps a silent connection open."""
    return f": {comment}\n\n"


async def json_response(request: Request, answering: Coroutine[Any, Any, Json]) -> Response:
    """The response of ``answering``, which is cancelled if the client leaves."""
    drawing = asyncio.ensure_future(answering)
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


async def _await_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class EventStream(StreamingResponse):
    """A stream that calls ``release`` however it ends, also before its first event."""

    def __init__(self, texts: AsyncIterator[str], *, release: Callable[[], None]) -> None:
        self._release = release
        super().__init__(
            texts, media_type="text/event-stream", headers={"Cache-Control": "no-cache"}
        )

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()
