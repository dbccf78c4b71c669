"""Shared by all HTTP servers of this project: guards around an app, limits, delivery of responses, metrics."""

import asyncio
import json
import socket
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from pipeline_lib.engines.embedded.generation import ChoiceDelta, EngineStoppedError
from pipeline_lib.engines.middleware.host_guard import HostGuard, Hosts
from pipeline_lib.engines.server.responses import (
    ApiError,
    CompletionLayout,
    Json,
    add_error_handlers,
    as_api_error,
)

disable_created_metrics()  # type: ignore[no-untyped-call]
MAX_BODY_BYTES = 16 << 20
"""A million tokens as text, or as ids, several times over."""
_STOP_S = 1
_POLL_S = 0.1
_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so none is closed under a request."""


def guarded_app(
    hosts: Hosts | None = None,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
) -> FastAPI:
    """An app without routes, for this machine's host names and ``hosts``, with errors in OpenAI's format."""
    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_middleware(HostGuard, hosts=hosts)
    add_error_handlers(app)
    return app


async def serve_app(
    app: FastAPI,
    listener: socket.socket,
    *,
    on_start: Callable[[], None],
    follow: Callable[[], None],
    on_stop: Callable[[], None],
) -> None:
    """Serve until a signal, which is raised again afterwards, or until ``follow`` raises.

    Args:
        app: The app.
        listener: A bound socket.
        on_start: Called once requests are accepted.
        follow: Called every tenth of a second from then on.
        on_stop: Called before uvicorn gives up on its open requests, and breaks their connections.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,  # requests in flight are cancelled after it
    )
    server = uvicorn.Server(config)

    async def watch() -> None:
        announced = False
        try:
            while not server.should_exit:
                if server.started and not announced:
                    on_start()
                    announced = True
                if announced:
                    follow()
                await asyncio.sleep(_POLL_S)
        finally:
            on_stop()
            server.should_exit = True

    watching = asyncio.create_task(watch())
    try:
        # In this task: it raises a signal again when it has ended.
        await server.serve([listener])
        if watching.done():
            watching.result()
    finally:
        watching.cancel()


class BodyLimit:
    """ASGI middleware: 413 for a request with a body of more than ``most_bytes``, before it is parsed."""

    def __init__(self, app: ASGIApp, *, most_bytes: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, then pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await self._read(scope, receive)
        if body is None:
            message = f"the body has more than {self._most_bytes} bytes; send less at a time"
            await ApiError(413, message).response()(scope, receive, send)
            return
        pending: list[Message] = [body]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> Message | None:
        """The body as one message, or the disconnect message; None if the body is too long."""
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > self._most_bytes:
            return None
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                return None
            more = message.get("more_body", False)
        return {"type": "http.request", "body": body, "more_body": False}


# Never received; the status that other servers log in this case.
_CLIENT_CLOSED_REQUEST = 499


def _event_text(chunks: Iterable[Json]) -> str:
    """Chunks as events, for one write: a write costs more than the events in it."""
    lines = (json.dumps(chunk, ensure_ascii=False, separators=(",", ":")) for chunk in chunks)
    return "".join(f"data: {line}\n\n" for line in lines)


async def event_texts(
    arriving: AsyncIterable[Sequence[ChoiceDelta] | str],
    layout: CompletionLayout,
    *,
    size: int = 0,
    totals: Callable[[], Json] | None = None,
) -> AsyncIterator[str]:
    """A stream: the deltas that arrive as chunks, its end, or an error that has no status any more.

    Args:
        arriving: Deltas that arrive together; a text is a comment, which keeps a silent connection open.
        layout: Of the chunks.
        size: Choices that are opened before their first delta.
        totals: Fields of a last chunk, as its token counts; None: there is no such chunk.
    """
    none = {"usage": None} if totals else {}

    def text(choices: Iterable[Json]) -> str:
        return _event_text(layout.wrap([choice], **none) for choice in choices)

    if opening := text(layout.first_chunks(range(size))):
        yield opening
    try:
        async for item in arriving:
            if isinstance(item, str):
                yield f": {item}\n\n"
            elif item:
                first = layout.first_chunks(delta.index for delta in item)
                yield text([*first, *map(layout.chunk, item)])
        if totals:
            yield _event_text([layout.wrap([], **totals())])
    except (ApiError, EngineStoppedError) as error:
        yield _event_text([as_api_error(error).body()])
    yield "data: [DONE]\n\n"


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


Row = tuple[type[Gauge | Counter], str, str, float | Mapping[str, float], str]
"""Type, name and meaning of a metric, its value, or its values by a label, and this label's name."""


def metrics_response(model: str, rows: Iterable[Row], *others: Collector) -> Response:
    """One sample of each row, and the samples of ``others``."""
    registry = CollectorRegistry()
    for kind, name, meaning, value, label in rows:
        metric = kind(name, meaning, ["model_name", *([label] if label else [])], registry=registry)
        if isinstance(value, Mapping):
            for key, one in value.items():
                metric.labels(model, key).inc(one)
        else:
            metric.labels(model).inc(value)
    for other in others:
        registry.register(other)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
