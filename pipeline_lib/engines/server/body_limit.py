"""Limit on request bodies, enforced before they are parsed."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline_lib.engines.server.errors import ApiError

MAX_BODY_BYTES = 16 << 20
"""A million tokens as text, or as ids, several times over."""


class BodyLimit:
    """ASGI middleware: 413 for a request with a body of more than ``most_bytes``."""

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
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._most_bytes:
                return None
            if not message.get("more_body", False):
                return {"type": "http.request", "body": b"".join(parts), "more_body": False}
