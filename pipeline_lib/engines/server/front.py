"""What all HTTP servers of this project share: guards around an app, a limit on bodies, uvicorn's settings."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline_lib.engines.middleware.host_guard import HostGuard, Hosts
from pipeline_lib.engines.server.errors import ApiError, add_error_handlers

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


def _uvicorn_config(app: FastAPI) -> uvicorn.Config:
    """No access log, no websockets; requests in flight are cancelled soon after a signal."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
    )


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
    server = uvicorn.Server(_uvicorn_config(app))

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
