"""The app: OpenAI's routes, and those that operate a server, on one embedded engine."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from pipeline_lib.serving.decoding.decode_pass import choose_decode_pass
from pipeline_lib.serving.decoding.embedded_engine import EmbeddedEngine
from pipeline_lib.serving.front.async_engine import LiveEngine, Prompt
from pipeline_lib.serving.front.body_limit import BodyLimit
from pipeline_lib.serving.front.errors import ApiError, answer_errors
from pipeline_lib.serving.front.generation import EngineGoneError, QueueFullError
from pipeline_lib.serving.front.metrics import EngineMetrics
from pipeline_lib.serving.front.names import ServedNames
from pipeline_lib.serving.front.prompts import PromptReader
from pipeline_lib.serving.front.responses import (
    ChatForm,
    CompletionForm,
    Envelope,
    Form,
    Json,
    Usage,
    Wanted,
)
from pipeline_lib.serving.front.schemas import (
    ChatBody,
    CompletionBody,
    LoadAdapterBody,
    UnloadAdapterBody,
    choice_seeds,
)
from pipeline_lib.serving.front.served_model import ServedModel
from pipeline_lib.serving.front.streaming import Delivery, engine_gone
from pipeline_lib.serving.front.token_text import TokenDecoder
from pipeline_lib.serving.middleware.host_guard import HostGuard, Hosts

MAX_PENDING = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The routes and what they share."""

    live: LiveEngine
    names: ServedNames
    reader: PromptReader
    metrics: EngineMetrics
    name_of: Callable[[int], str]
    """A token by itself, special ones too."""

    def add_to(self, app: FastAPI) -> None:
        """Register all routes."""
        app.get("/health")(self.health)
        app.get("/metrics")(self.counters)
        app.get("/v1/models")(self.models)
        app.post("/v1/completions")(self.completions)
        app.post("/v1/chat/completions")(self.chat)
        app.post("/v1/load_lora_adapter")(self.load_adapter)
        app.post("/v1/unload_lora_adapter")(self.unload_adapter)

    async def health(self) -> Response:
        """200 while the thread that draws lives; one token drawn is the proof that it works."""
        if self.live.gone is not None:
            raise engine_gone(self.live.gone)
        return Response()

    async def counters(self) -> Response:
        """For a dashboard or a supervisor."""
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def models(self) -> Json:
        """The base and the adapters."""
        return {"object": "list", "data": self.names.listed()}

    async def load_adapter(self, body: LoadAdapterBody) -> Response:
        """Serve a LoRA adapter as a model of its own name."""
        try:
            await self.names.load(body)
        except EngineGoneError as error:
            raise engine_gone(error) from error
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    async def unload_adapter(self, body: UnloadAdapterBody) -> Response:
        """Serve it no longer."""
        await self.names.unload(body)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    async def completions(self, body: CompletionBody, request: Request) -> Response:
        """Continue prompts as they stand."""
        self._check(body, prompts=len(body.prompt))
        prompts = await run_in_threadpool(self._read, body)
        wanted = Wanted(
            logprobs=body.logprobs is not None,
            alternatives=body.logprobs or 0,
            token_ids=body.return_token_ids,
        )
        form = CompletionForm(wanted=wanted, name_of=self.name_of, decoder=self.live.decoder)
        envelope = self._envelope("text_completion", "cmpl", body.model)
        room = self.reader.room(prompts, body.wanted_tokens)
        delivery = self._draw(body, prompts, room, form=form, envelope=envelope)
        return await _deliver(delivery, body, request)

    async def chat(self, body: ChatBody, request: Request) -> Response:
        """Answer as the assistant, by the model's own chat template."""
        self._check(body, prompts=1)
        text = await run_in_threadpool(self.reader.rendered, body.messages)
        prompt = await run_in_threadpool(self.reader.ids, text)
        wanted = Wanted(
            logprobs=body.logprobs,
            alternatives=body.top_logprobs or 0,
            token_ids=body.return_token_ids,
        )
        form = ChatForm(wanted=wanted, name_of=self.name_of)
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        envelope = self._envelope(kind, "chatcmpl", body.model)
        room = self.reader.room([prompt], body.wanted_tokens)
        delivery = self._draw(body, [prompt], room, form=form, envelope=envelope)
        return await _deliver(delivery, body, request)

    def _read(self, body: CompletionBody) -> list[list[int]]:
        special = body.add_special_tokens
        return [self.reader.ids(prompt, add_special_tokens=special) for prompt in body.prompt]

    def _check(self, body: CompletionBody | ChatBody, *, prompts: int) -> None:
        """Refuse what could never be drawn before any work is done for it."""
        self.names.adapter_of(body.model)
        if (size := body.n * prompts) > self.live.max_pending:
            raise ApiError(
                400,
                f"n: {size} completions in one request; at most {self.live.max_pending}",
                param="n",
            )

    def _envelope(self, kind: str, prefix: str, model: str | None) -> Envelope:
        return Envelope.seal(kind=kind, prefix=prefix, model=model or self.names.base)

    def _draw(
        self,
        body: CompletionBody | ChatBody,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        *,
        form: Form,
        envelope: Envelope,
    ) -> Delivery:
        """Queue the request.

        Raises:
            ApiError: 404, its model went meanwhile; 429, too much waits; 500 or 503, the engine is
                gone.
        """
        try:
            generation = self.live.submit(
                [Prompt(ids=ids, seeds=_seeds(body.seed, body.n)) for ids in prompts],
                body.decoding(max_new_tokens=max_new_tokens),
                adapter=self.names.adapter_of(body.model),
                streamed=body.stream,
            )
        except QueueFullError as error:
            raise ApiError(429, str(error)) from error
        except EngineGoneError as error:
            raise engine_gone(error) from error
        usage = Usage(prompt_tokens=sum(map(len, prompts)))
        return Delivery(
            live=self.live, generation=generation, form=form, envelope=envelope, usage=usage
        )


def _seeds(seed: int | None, count: int) -> list[int]:
    """Without a seed each prompt gets one from the system: nothing is promised of it."""
    return choice_seeds(secrets.randbits(63) if seed is None else seed, count=count)


async def _deliver(
    delivery: Delivery, body: CompletionBody | ChatBody, request: Request
) -> Response:
    if body.stream:
        return delivery.stream(include_usage=body.include_usage)
    return await delivery.whole(request)


def _nothing() -> None:
    """For an app whose process is watched by nobody."""


def make_app(
    engine: EmbeddedEngine,
    *,
    model_name: str,
    threads: int = 1,
    max_pending: int = MAX_PENDING,
    hosts: Hosts | None = None,
    on_failure: Callable[[], None] = _nothing,
) -> FastAPI:
    """An app that serves the engine as ``model_name``; its thread lives as long as the app runs.

    Requests that name another host than this machine or ``hosts`` are refused. ``on_failure`` is
    called, in that thread, when the engine has failed for good.

    Raises:
        BadInputError: the embedded engine cannot decode such a model.
    """
    choose_decode_pass(engine.model)
    tokenizer, config = engine.tokenizer, engine.model.config.get_text_config()
    live = LiveEngine(
        model=ServedModel(engine=engine, threads=threads),
        decoder=TokenDecoder.of(tokenizer),
        max_pending=max_pending,
        on_failure=on_failure,
    )
    reader = PromptReader(
        tokenizer=tokenizer,
        vocabulary_size=engine.model.get_input_embeddings().num_embeddings,
        context_tokens=getattr(config, "max_position_embeddings", None),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        live.start()
        yield
        live.stop()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_middleware(HostGuard, hosts=hosts)
    app.state.live = live
    answer_errors(app)
    Front(
        live=live,
        names=ServedNames(live=live, base=model_name, context_tokens=reader.context_tokens),
        reader=reader,
        metrics=EngineMetrics(live=live, model_name=model_name),
        name_of=lru_cache(maxsize=65536)(lambda token: str(tokenizer.decode([token]))),
    ).add_to(app)
    return app
