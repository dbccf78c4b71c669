"""The ASGI app: OpenAI's routes and operational routes, on one embedded engine."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from pipeline_lib.engines.context import context_of
from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.decode_pass import choose_decode_pass
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.generation import EngineStoppedError, Prompt, QueueFullError
from pipeline_lib.engines.embedded.multi_lora import MultiLoraModel
from pipeline_lib.engines.embedded.token_text import TokenDecoder
from pipeline_lib.engines.middleware.host_guard import HostGuard, Hosts
from pipeline_lib.engines.server.body_limit import BodyLimit
from pipeline_lib.engines.server.errors import ApiError, add_error_handlers
from pipeline_lib.engines.server.metrics import EngineMetrics
from pipeline_lib.engines.server.model_registry import ModelRegistry
from pipeline_lib.engines.server.prometheus import metrics_response
from pipeline_lib.engines.server.prompts import PromptTokenizer
from pipeline_lib.engines.server.responses import (
    ChatLayout,
    ChoiceFields,
    CompletionLayout,
    Envelope,
    Json,
    ResponseLayout,
    Usage,
)
from pipeline_lib.engines.server.schemas import (
    ChatRequest,
    CompletionRequest,
    LoadAdapterRequest,
    UnloadAdapterRequest,
    choice_seeds,
)
from pipeline_lib.engines.server.streaming import PendingResponse, stopped_error
from pipeline_lib.engines.tokens import decode_token, encode_text

MAX_PENDING = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The routes and their shared state."""

    engine: AsyncEngine
    registry: ModelRegistry
    prompts: PromptTokenizer
    metrics: EngineMetrics
    name_of: Callable[[int], str]
    """Text of a single token, special ones included."""

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
        """200 while the engine's thread runs; only a drawn token proves that it computes."""
        if self.engine.stopped is not None:
            raise stopped_error(self.engine.stopped)
        return Response()

    async def counters(self) -> Response:
        """Counters for a dashboard or a watchdog."""
        return metrics_response(self.metrics)

    async def models(self) -> Json:
        """The base and the adapters."""
        return {"object": "list", "data": self.registry.list_models()}

    async def load_adapter(self, body: LoadAdapterRequest) -> Response:
        """Serve a LoRA adapter as a model."""
        try:
            await self.registry.load(body)
        except EngineStoppedError as error:
            raise stopped_error(error) from error
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    async def unload_adapter(self, body: UnloadAdapterRequest) -> Response:
        """Stop serving an adapter."""
        await self.registry.unload(body)
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    async def completions(self, body: CompletionRequest, request: Request) -> Response:
        """Complete prompts, without a chat template."""
        self._check(body, prompts=len(body.prompt))
        prompts = await run_in_threadpool(self._encode, body)
        fields = ChoiceFields(
            logprobs=body.logprobs is not None,
            alternatives=body.logprobs or 0,
            token_ids=body.return_token_ids,
        )
        layout = CompletionLayout(fields=fields, name_of=self.name_of, decoder=self.engine.decoder)
        envelope = self._envelope("text_completion", "cmpl", body.model)
        limit = self.prompts.max_new_tokens(prompts, body.wanted_tokens)
        pending = self._submit(body, prompts, limit, layout=layout, envelope=envelope)
        return await _respond(pending, body, request)

    async def chat(self, body: ChatRequest, request: Request) -> Response:
        """Complete the assistant's turn, by the model's chat template."""
        self._check(body, prompts=1)
        text = await run_in_threadpool(self.prompts.render, body.messages)
        prompt = await run_in_threadpool(self.prompts.encode, text)
        fields = ChoiceFields(
            logprobs=body.logprobs,
            alternatives=body.top_logprobs or 0,
            token_ids=body.return_token_ids,
        )
        layout = ChatLayout(fields=fields, name_of=self.name_of)
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        envelope = self._envelope(kind, "chatcmpl", body.model)
        limit = self.prompts.max_new_tokens([prompt], body.wanted_tokens)
        pending = self._submit(body, [prompt], limit, layout=layout, envelope=envelope)
        return await _respond(pending, body, request)

    def _encode(self, body: CompletionRequest) -> list[list[int]]:
        by = partial(encode_text, add_special_tokens=body.add_special_tokens)
        return [self.prompts.encode(prompt, by) for prompt in body.prompt]

    def _check(self, body: CompletionRequest | ChatRequest, *, prompts: int) -> None:
        """Refuse unknown models and too many completions before tokenization."""
        self.registry.resolve(body.model)
        if (size := body.n * prompts) > self.engine.max_pending:
            raise ApiError(
                400,
                f"n: {size} completions in one request; at most {self.engine.max_pending}",
                param="n",
            )

    def _envelope(self, kind: str, prefix: str, model: str | None) -> Envelope:
        return Envelope.new(kind=kind, prefix=prefix, model=model or self.registry.base)

    def _submit(
        self,
        body: CompletionRequest | ChatRequest,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        *,
        layout: ResponseLayout,
        envelope: Envelope,
    ) -> PendingResponse:
        """Queue the request.

        Raises:
            ApiError: 404, the model was unloaded meanwhile; 429, too many completions are pending;
                500 or 503, the engine has stopped.
        """
        try:
            generation = self.engine.submit(
                [Prompt(ids=ids, seeds=_seeds(body.seed, body.n)) for ids in prompts],
                body.decoding(max_new_tokens=max_new_tokens),
                adapter=self.registry.resolve(body.model),
                streamed=body.stream,
            )
        except QueueFullError as error:
            raise ApiError(429, str(error)) from error
        except EngineStoppedError as error:
            raise stopped_error(error) from error
        usage = Usage(prompt_tokens=sum(map(len, prompts)))
        return PendingResponse(
            engine=self.engine,
            generation=generation,
            layout=layout,
            envelope=envelope,
            usage=usage,
        )


def _seeds(seed: int | None, count: int) -> list[int]:
    """Seeds of a prompt's completions; random ones without ``seed``."""
    return choice_seeds(secrets.randbits(63) if seed is None else seed, count=count)


async def _respond(
    pending: PendingResponse, body: CompletionRequest | ChatRequest, request: Request
) -> Response:
    if body.stream:
        return pending.event_stream(include_usage=body.include_usage)
    return await pending.json_response(request)


def _ignore_failure() -> None:
    """Default of ``on_failure``."""


def make_app(
    engine: EmbeddedEngine,
    *,
    model_name: str,
    threads: int = 1,
    max_pending: int = MAX_PENDING,
    hosts: Hosts | None = None,
    on_failure: Callable[[], None] = _ignore_failure,
) -> FastAPI:
    """An app that serves ``engine`` as ``model_name``; the engine's thread runs while the app does.

    Args:
        engine: The base model.
        model_name: Its name in requests.
        threads: CPU threads of torch.
        max_pending: Completions running or waiting at once.
        hosts: Accepted host names besides this machine's loopback names.
        on_failure: Called in the engine's thread after a failure that ends it.

    Raises:
        BadInputError: the embedded engine cannot decode the model.
    """
    choose_decode_pass(engine.model)
    tokenizer, config = engine.tokenizer, engine.model.config.get_text_config()
    async_engine = AsyncEngine(
        model=MultiLoraModel(base=engine, threads=threads),
        decoder=TokenDecoder.of(tokenizer),
        max_pending=max_pending,
        on_failure=on_failure,
    )
    prompts = PromptTokenizer(
        tokenizer=tokenizer,
        vocabulary_size=engine.model.get_input_embeddings().num_embeddings,
        context_tokens=context_of(config.to_dict()),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async_engine.start()
        yield
        async_engine.stop()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BodyLimit)
    app.add_middleware(HostGuard, hosts=hosts)
    app.state.engine = async_engine
    add_error_handlers(app)
    Routes(
        engine=async_engine,
        registry=ModelRegistry(
            engine=async_engine, base=model_name, context_tokens=prompts.context_tokens
        ),
        prompts=prompts,
        metrics=EngineMetrics(engine=async_engine, model_name=model_name),
        name_of=lru_cache(maxsize=65536)(partial(decode_token, tokenizer)),
    ).add_to(app)
    return app
