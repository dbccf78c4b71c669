"""A real HTTP server with scripted responses and faults."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.params.serve import ServeParams

MODEL = "policy"
Body = dict[str, Any]
Reply = Callable[[Request, Body], Awaitable[Response]]


def completion(body: Body, **changes: Any) -> Body:
    """A response like vLLM's: text i is "<prompt>:<seed + i>", with a token per character."""
    choices = [
        {
            "index": i,
            "text": f"{body['prompt']}:{body['seed'] + i}",
            "finish_reason": "stop",
            "token_ids": list(range(i + 3)),
            "logprobs": {"token_logprobs": [-0.5] * (i + 3)},
        }
        for i in range(body["n"])
    ]
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": sum(len(choice["token_ids"]) for choice in choices),
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    return {"id": "c", "model": body["model"], "choices": choices, "usage": usage} | changes


@dataclass
class ScriptedServer:
    """Sends the scripted replies, once each, then responses like vLLM's."""

    port: int
    models: list[Body] = field(default_factory=lambda: [{"id": MODEL, "owned_by": "vllm"}])
    models_before: list[list[Body]] = field(default_factory=list)
    """Scripted responses of the list of models, used once each."""
    script: list[Reply] = field(default_factory=list)
    always: Reply | None = None
    """Replaces the usual response."""
    bodies: list[Body] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    left: int = 0
    """Clients that disconnected before their response."""

    async def complete(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.bodies.append(body)
        self.paths.append(request.url.path)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self.script.pop(0) if self.script else self.always or usual
            answer = asyncio.ensure_future(reply(request, body))
            gone = asyncio.ensure_future(_disconnect(request))
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            if not answer.done():
                self.left += 1
                answer.cancel()
                return Response(status_code=499)
            return answer.result()
        finally:
            self.in_flight -= 1

    async def list_models(self, _request: Request) -> Response:
        models = self.models_before.pop(0) if self.models_before else self.models
        return JSONResponse({"object": "list", "data": models})

    def client(
        self, *, engine: str = "vllm", chat_format=None, encode=None, **serve
    ) -> OpenAIModel:
        """A client of this server."""
        url = f"http://127.0.0.1:{self.port}/v1"
        endpoint = Endpoint(engine=engine, base_url=url, model=MODEL, identity="digest")
        params = ServeParams(engine=engine, url=url, **{"start_timeout_s": 120.0, **serve})
        return OpenAIModel(endpoint=endpoint, serve=params, chat_format=chat_format, encode=encode)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def usual(_request: Request, body: Body) -> Response:
    if "messages" in body:
        return JSONResponse(chat(body))
    return JSONResponse(completion(body))


def chat(body: Body) -> Body:
    """A response of a chat route."""
    message = {"role": "assistant", "content": f"you said {body['messages'][-1]['content']}"}
    return {
        "model": f"{body['model']}-2026-11-20",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 4},
    }


def answers(content: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """The same response to any request: JSON, or raw bytes."""

    async def reply(_request: Request, _body: Body) -> Response:
        if isinstance(content, bytes):
            return Response(content, status, headers, media_type="application/json")
        return JSONResponse(content, status, headers)

    return reply


def changed(**changes: Any) -> Reply:
    """The usual response with changed fields."""

    async def reply(_request: Request, body: Body) -> Response:
        return JSONResponse(completion(body, **changes))

    return reply


def slow(seconds: float) -> Reply:
    """The usual response, late."""

    async def reply(request: Request, body: Body) -> Response:
        await asyncio.sleep(seconds)
        return await usual(request, body)

    return reply


async def never(_request: Request, _body: Body) -> Response:
    """No response while the client is connected."""
    await asyncio.Event().wait()
    raise AssertionError


class _Reset(Response):
    """Half of a response, then the connection breaks, by a wrong Content-Length."""

    async def __call__(self, _scope, _receive, send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id": ', "more_body": True})
        raise ConnectionResetError


async def reset(_request: Request, _body: Body) -> Response:
    return _Reset()


@contextmanager
def scripted_server(port: int = 0) -> Iterator[ScriptedServer]:
    """The server, running in a thread, on a free port unless one is given."""
    listener = socket.create_server(("127.0.0.1", port))
    script = ScriptedServer(port=listener.getsockname()[1])
    app = Starlette(
        routes=[
            Route("/v1/models", script.list_models),
            Route("/v1/completions", script.complete, methods=["POST"]),
            Route("/v1/chat/completions", script.complete, methods=["POST"]),
            Route("/classify", script.complete, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield script
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()
