"""The gateway as an ASGI app: OpenAI's chat route over rounds of calls to an engine or to workers."""

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.engines.middleware.host_guard import HostGuard
from pipeline_lib.engines.server.body_limit import BodyLimit
from pipeline_lib.engines.server.delivery import EventStream, json_response
from pipeline_lib.engines.server.errors import ApiError, add_error_handlers
from pipeline_lib.engines.server.prometheus import metrics_response
from pipeline_lib.engines.server.responses import Json
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.pacore import PacoreParams
from pipeline_lib.systems.pacore.gateway.metrics import GatewayMetrics
from pipeline_lib.systems.pacore.gateway.plans import ModelNames, request_params
from pipeline_lib.systems.pacore.gateway.responses import GatewayResponse
from pipeline_lib.systems.pacore.gateway.schemas import GatewayRequest
from pipeline_lib.systems.pacore.gateway.solving import Solver
from pipeline_lib.systems.pacore.gateway.streaming import AnswerStream
from pipeline_lib.systems.pacore.rounds import Setting
from pipeline_lib.systems.pacore.solution import Question

_SEED_BITS = 62
"""Of a random seed: within the range of all engines, also for the last of n answers."""

SettingOf = Callable[[PacoreParams, int, int], Setting]
"""From params, seed and number of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The routes and their shared state."""

    solver: Solver
    names: ModelNames
    params: PacoreParams
    setting_of: SettingOf
    metrics: GatewayMetrics

    def add_to(self, app: FastAPI) -> None:
        """Register all routes."""
        app.get("/health")(self.health)
        app.get("/metrics")(self.counters)
        app.get("/v1/models")(self.models)
        app.post("/v1/chat/completions")(self.chat)

    async def health(self) -> Response:
        """200 while the engine lists its model."""
        try:
            await self.solver.upstream.check()
        except ReasonloopError as error:
            raise ApiError(503, str(error), code="engine_down") from error
        return Response()

    async def counters(self) -> Response:
        """Counters for a dashboard."""
        return metrics_response(self.metrics)

    async def models(self) -> Json:
        """The plain model, and one for each preset."""
        return {"object": "list", "data": self.names.cards()}

    async def chat(self, body: GatewayRequest, request: Request) -> Response:
        """Answer the last user message by the rounds that the request asks for."""
        params = request_params(body, self.names.preset(body.model), self.params)
        with ExitStack() as stack:
            stack.enter_context(self.metrics.admitted())
            seed = secrets.randbits(_SEED_BITS) if body.seed is None else body.seed
            setting = self._setting(body, params, seed)
            # One id for all, so that the answer depends on seed, params and conversation alone.
            question = Question(id="request", conversation=body.conversation)
            await self._check(question, setting)
            response = GatewayResponse.new(
                model=body.model or self.names.base, stream=body.stream, seed=seed
            )
            if not body.stream:
                return await json_response(request, self._whole(question, setting, response))
            stream = AnswerStream(
                solver=self.solver,
                question=question,
                setting=setting,
                response=response,
                include_usage=body.include_usage,
            )
            stack.callback(stream.cancel)
            return EventStream(stream.texts(), release=stack.pop_all().close)

    def _setting(self, body: GatewayRequest, params: PacoreParams, seed: int) -> Setting:
        setting = self.setting_of(params, seed, body.n)
        stop = tuple(body.stop)
        return replace(
            setting,
            decoding=replace(setting.decoding, stop=stop),
            last_decoding=replace(setting.last_decoding, stop=stop),
        )

    async def _whole(self, question: Question, setting: Setting, response: GatewayResponse) -> Json:
        return response.whole(await self.solver.solve(question, setting))

    async def _check(self, question: Question, setting: Setting) -> None:
        """Refuse a conversation that no call can answer.

        Raises:
            ApiError: 400; the chat template refuses it, or the context has no room for an answer; 503 if no
                worker can say how much there is.
        """
        # Not in the solver's thread: the first line of a stream would wait for other requests.
        if not await run_in_threadpool(_fits, question, setting):
            raise ApiError(
                400,
                f"messages: the model's context leaves less than {setting.decoding.max_new_tokens} "
                "tokens for an answer; shorten them or lower max_tokens",
                param="messages",
                code="context_length_exceeded",
            )


def _fits(question: Question, setting: Setting) -> bool:
    try:
        prompt = setting.render(question.conversation)
    except Exception as error:  # the template is a program, and the messages are its input
        reason = reason_of(error)
        raise ApiError(400, f"the chat template refuses: {reason}", param="messages") from error
    try:
        return setting.fits(prompt)
    except EngineDownError as error:
        raise ApiError(503, str(error), code="engine_down") from error


def make_app(routes: Routes) -> FastAPI:
    """An app for this machine's host names alone."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_middleware(HostGuard)
    add_error_handlers(app)
    routes.add_to(app)
    return app
