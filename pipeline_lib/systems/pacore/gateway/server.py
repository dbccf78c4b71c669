"""The gateway: OpenAI's chat route over rounds of calls, in the process that supervises the engine or finds workers."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.engines.server.front import EventStream, guarded_app, json_response, serve_app
from pipeline_lib.engines.server.responses import TOO_LONG, ApiError, Json, bad_field
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.pacore.consensus import elect_path
from pipeline_lib.systems.pacore.gateway.answers import Answer
from pipeline_lib.systems.pacore.gateway.requests import GatewayRequest, served_names
from pipeline_lib.systems.pacore.gateway.solving import Solver, Upstream
from pipeline_lib.systems.pacore.rounds import Setting
from pipeline_lib.systems.pacore.settings import make_setting
from pipeline_lib.systems.pacore.solution import Question
from pipeline_lib.systems.pacore.worker_pool import WorkerPool
from pipeline_lib.verify.dispatch import Verifier, open_verifier

_OWNER = "reasonloop"
_SEED_BITS = 62
"""Of a random seed: within the range of all engines, also for the last of n answers."""


def run_gateway(
    model: OpenAIModel | WorkerPool,
    params: Params,
    listener: socket.socket,
    *,
    name: str,
    on_start: Callable[[], None],
    follow: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, in the main thread; both are raised again afterwards.

    Args:
        model: Client of the engine, or the pool of its workers.
        params: Rounds, and the limit of requests in flight.
        listener: A bound socket.
        name: Of the plain model in requests; the engine's own may contain a digest of the weights.
        on_start: Called once requests are accepted.
        follow: Called every tenth of a second from then on; an exception ends the server.

    Raises:
        BadInputError: the model has no chat template.
        EngineDownError: the engine does not answer at the start.
    """

    async def serve(gateway: _Gateway) -> None:
        async with model.open() as upstream:
            app = gateway.app(upstream)
            on_stop = gateway.solver.stop
            await serve_app(app, listener, on_start=on_start, follow=follow, on_stop=on_stop)

    with open_verifier(params.verify) as verifier:
        # Without a template this raises, before the first request.
        make_setting(model, params.pacore, verifier, seed=0, elect=elect_path)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="rounds") as worker:
            asyncio.run(serve(_Gateway(name, model, params.pacore, verifier, worker)))


@dataclass
class _Gateway:
    """The routes and their shared state."""

    name: str
    model: OpenAIModel | WorkerPool
    params: PacoreParams
    verifier: Verifier
    worker: ThreadPoolExecutor

    def app(self, upstream: Upstream) -> FastAPI:
        """The app over an open engine."""
        self.solver = Solver(
            model_name=self.name,
            upstream=upstream,
            worker=self.worker,
            most_in_flight=self.params.max_requests,
            calls_by_worker=self.model.calls_in_use if isinstance(self.model, WorkerPool) else None,
        )
        app = guarded_app()
        app.get("/health")(self.health)
        app.get("/metrics")(self.solver.metrics)
        app.get("/v1/models")(self.models)
        app.post("/v1/chat/completions")(self.chat)
        return app

    async def health(self) -> Response:
        """200 while the engine lists its model."""
        try:
            await self.solver.upstream.check()
        except ReasonloopError as error:
            raise ApiError(503, str(error), code="engine_down") from error
        return Response()

    @cached_property
    def _cards(self) -> list[Json]:
        model = self.model
        root, context_tokens = (
            (model.served[0].name, None)
            if isinstance(model, WorkerPool)
            else (model.endpoint.model, model.context_tokens)
        )
        card = {
            "object": "model",
            "created": int(datetime.now(UTC).timestamp()),
            "owned_by": _OWNER,
        }
        card |= {"root": root, "max_model_len": context_tokens}
        return [
            {"id": name, **card, "parent": None if name == self.name else self.name}
            for name in served_names(self.name)
        ]

    async def models(self) -> Json:
        """The plain model, and one for each preset."""
        return {"object": "list", "data": self._cards}

    async def chat(self, body: GatewayRequest, request: Request) -> Response:
        """Answer the last user message by the rounds that the request asks for."""
        params = body.params(self.name, self.params)
        with ExitStack() as stack:
            stack.enter_context(self.solver.admitted())
            # One id for all, so that the answer depends on seed, params and conversation alone.
            question = Question(id="request", conversation=body.conversation)
            setting = self._setting(body, params)
            # Not in the solver's thread: the first line of a stream would wait for other requests.
            await run_in_threadpool(_check_fit, question, setting)
            answer = Answer(
                solver=self.solver,
                question=question,
                setting=setting,
                model=body.model or self.name,
                include_usage=body.include_usage,
            )
            if not body.stream:
                return await json_response(request, answer.whole())
            stack.callback(answer.cancel)
            return EventStream(answer.texts(), release=stack.pop_all().close)

    def _setting(self, body: GatewayRequest, params: PacoreParams) -> Setting:
        if params.votes and body.n > 1:
            raise bad_field("n", f"pacore.final={params.final} elects one answer; give n=1")
        seed = secrets.randbits(_SEED_BITS) if body.seed is None else body.seed
        setting = make_setting(
            self.model, params, self.verifier, seed=seed, answers=body.n, elect=elect_path
        )
        stop = tuple(body.stop)
        return replace(
            setting,
            decoding=replace(setting.decoding, stop=stop),
            last_decoding=replace(setting.last_decoding, stop=stop),
        )


def _check_fit(question: Question, setting: Setting) -> None:
    """ApiError 400 for a conversation that no call can answer; 503 if no worker can say how much room there is."""
    try:
        prompt = setting.form.chat_format.render(question.conversation)
    except Exception as error:  # the template is a program, and the messages are its input
        reason = reason_of(error)
        raise ApiError(400, f"the chat template refuses: {reason}", param="messages") from error
    try:
        fits = setting.form.fits(prompt)
    except EngineDownError as error:
        raise ApiError(503, str(error), code="engine_down") from error
    if not fits:
        raise bad_field(
            "messages",
            f"the model's context leaves less than {setting.decoding.max_new_tokens} tokens for an "
            "answer; shorten them or lower max_tokens",
            code=TOO_LONG,
        )
