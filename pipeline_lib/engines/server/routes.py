"""The ASGI app: OpenAI's routes and operational routes, on one embedded engine."""

import asyncio
import pathlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import Counter, Gauge
from starlette.concurrency import run_in_threadpool

from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.decode_pass import choose_decode_pass
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.generation import ChoiceDelta, Prompt
from pipeline_lib.engines.middleware.host_guard import Hosts
from pipeline_lib.engines.model_config import context_of
from pipeline_lib.engines.server.front import (
    EventStream,
    Row,
    event_texts,
    guarded_app,
    json_response,
    metrics_response,
)
from pipeline_lib.engines.server.prompts import PromptTokenizer
from pipeline_lib.engines.server.responses import (
    ApiError,
    ChatLayout,
    CompletionLayout,
    Json,
    Usage,
    bad_field,
    unknown_model,
)
from pipeline_lib.engines.server.schemas import (
    ChatRequest,
    CompletionRequest,
    LoadAdapterRequest,
    UnloadAdapterRequest,
)
from pipeline_lib.engines.tokens import decode_token, encode_text

MAX_ADAPTERS = 64


@dataclass(kw_only=True)
class ModelRegistry:
    """Resolves model names while adapters are loaded and unloaded; their routes.

    A change of a name takes effect with the response to its request; completions that began before
    end under the weights with which they began.
    """

    engine: AsyncEngine
    base: str
    context_tokens: int | None
    _adapters: dict[str, tuple[str, str]] = field(init=False, default_factory=dict)
    """Folder, and key in the engine, by name."""
    _loading: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _since: int = field(init=False, default_factory=lambda: int(datetime.now(UTC).timestamp()))

    def resolve(self, name: str | None) -> str | None:
        """The engine's key of the adapter that a request names; None for the base. ApiError: 404; no such model."""
        if name is None or name == self.base:
            return None
        return self._key(name, param="model")

    async def load(self, body: LoadAdapterRequest) -> Response:
        """Serve an adapter under a name.

        Raises:
            ApiError: 400; the name is taken, or there are too many adapters.
            EngineStoppedError: the engine has stopped.
            BadInputError: the folder is not an adapter of this model.
        """
        async with self._loading:
            if self.engine.stopped is not None:
                raise self.engine.stopped
            before = self._adapters.get(body.lora_name)
            if body.lora_name == self.base or (before and not body.load_inplace):
                raise bad_field(
                    "lora_name",
                    f"{body.lora_name} is served already; give another name, or set load_inplace to "
                    "replace an adapter",
                )
            if not before and len(self._adapters) >= MAX_ADAPTERS:
                raise ApiError(
                    400, f"{MAX_ADAPTERS} adapters are loaded, the most there may be; unload one"
                )
            folder = pathlib.Path(body.lora_path)
            model = self.engine.model
            adapter = await run_in_threadpool(model.read, folder)
            key = await self.engine.call(partial(model.attach, adapter, source=folder))
            self._adapters[body.lora_name] = body.lora_path, key
            if before:
                self.engine.retire(before[1])
        return _changed(body.lora_name, "added")

    async def unload(self, body: UnloadAdapterRequest) -> Response:
        """Stop serving an adapter. ApiError: 404; no adapter of that name is served."""
        async with self._loading:
            key = self._key(body.lora_name, param="lora_name")
            del self._adapters[body.lora_name]
            self.engine.retire(key)
        return _changed(body.lora_name, "removed")

    def _key(self, name: str, *, param: str) -> str:
        if name not in self._adapters:
            raise unknown_model(name, [self.base, *self._adapters], param=param)
        return self._adapters[name][1]

    async def models(self) -> Json:
        """The base, and then the adapters."""
        cards = [self._card(self.base) | {"max_model_len": self.context_tokens}]
        for name, (folder, _) in self._adapters.items():
            cards.append(self._card(name) | {"root": folder, "parent": self.base})
        return {"object": "list", "data": cards}

    def _card(self, name: str) -> dict[str, Any]:
        owner = self.engine.base.engine
        return {"id": name, "object": "model", "created": self._since, "owned_by": owner}


def _changed(name: str, how: str) -> Response:
    return PlainTextResponse(f"Success: LoRA adapter '{name}' {how} successfully.")


MAX_PENDING = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The routes and their shared state."""

    engine: AsyncEngine
    registry: ModelRegistry
    prompts: PromptTokenizer
    name_of: Callable[[int], str]
    """Text of a single token, special ones included."""

    def add_to(self, app: FastAPI) -> None:
        """Register all routes."""
        app.get("/health")(self.health)
        app.get("/metrics")(self.counters)
        app.get("/v1/models")(self.registry.models)
        app.post("/v1/completions")(self.completions)
        app.post("/v1/chat/completions")(self.chat)
        app.post("/v1/load_lora_adapter")(self.registry.load)
        app.post("/v1/unload_lora_adapter")(self.registry.unload)

    async def health(self) -> Response:
        """200 while the engine's thread runs; only a drawn token proves that it computes."""
        if self.engine.stopped is not None:
            raise self.engine.stopped
        return Response()

    async def counters(self) -> Response:
        """Counters for a dashboard or a watchdog, with vLLM's names, so that one reads both engines."""
        engine = self.engine
        running, waiting = engine.running_and_waiting()
        ended = {reason.value: count for reason, count in engine.finished.items()}
        rows: list[Row] = [
            (Gauge, "vllm:num_requests_running", "Completions being drawn.", running, ""),
            (Gauge, "vllm:num_requests_waiting", "Completions that wait.", waiting, ""),
            (Counter, "vllm:prompt_tokens", "Prompt tokens read.", engine.prompt_tokens, ""),
            (Counter, "vllm:generation_tokens", "Tokens drawn.", engine.completion_tokens, ""),
            (Counter, "vllm:request_success", "Completions that ended.", ended, "finished_reason"),
        ]
        return metrics_response(self.registry.base, rows)

    async def completions(self, body: CompletionRequest, request: Request) -> Response:
        """Complete prompts, without a chat template."""
        self._check(body, prompts=len(body.prompt))
        prompts = await run_in_threadpool(self._encode, body)
        layout = CompletionLayout(
            model=body.model or self.registry.base,
            logprobs=body.logprobs is not None,
            alternatives=body.logprobs or 0,
            token_ids=body.return_token_ids,
            name_of=self.name_of,
        )
        return await self._answer(body, prompts, request, layout)

    async def chat(self, body: ChatRequest, request: Request) -> Response:
        """Complete the assistant's turn, by the model's chat template."""
        self._check(body, prompts=1)
        text = await run_in_threadpool(self.prompts.render, body.messages)
        prompt = await run_in_threadpool(self.prompts.encode, text)
        layout = ChatLayout(
            model=body.model or self.registry.base,
            streamed=body.stream,
            logprobs=body.logprobs,
            alternatives=body.top_logprobs or 0,
            token_ids=body.return_token_ids,
            name_of=self.name_of,
        )
        return await self._answer(body, [prompt], request, layout)

    def _encode(self, body: CompletionRequest) -> list[list[int]]:
        by = partial(encode_text, add_special_tokens=body.add_special_tokens)
        return [self.prompts.encode(prompt, by) for prompt in body.prompt]

    def _check(self, body: CompletionRequest | ChatRequest, *, prompts: int) -> None:
        """Refuse unknown models and too many completions before tokenization."""
        self.registry.resolve(body.model)
        if (size := body.n * prompts) > self.engine.max_pending:
            most = self.engine.max_pending
            raise bad_field("n", f"{size} completions in one request; at most {most}")

    async def _answer(
        self,
        body: CompletionRequest | ChatRequest,
        prompts: Sequence[Sequence[int]],
        request: Request,
        layout: CompletionLayout,
    ) -> Response:
        """Queue the request; its response, or stream. The model may have been unloaded meanwhile."""
        limit = self.prompts.max_new_tokens(prompts, body.wanted_tokens)
        generation = self.engine.submit(
            [Prompt(ids=ids, seeds=body.seeds()) for ids in prompts],
            body.decoding(max_new_tokens=limit),
            adapter=self.registry.resolve(body.model),
            streamed=body.stream,
        )
        usage = Usage(prompt_tokens=sum(map(len, prompts)))

        def release() -> None:
            if generation.unfinished:
                self.engine.cancel(generation)

        async def counted() -> AsyncIterator[list[ChoiceDelta]]:
            async for deltas in generation:
                usage.add(deltas)
                yield deltas

        def totals() -> Json:
            return {"usage": usage.json()}

        async def whole() -> Json:
            choices = [layout.choice(delta) async for deltas in counted() for delta in deltas]
            choices.sort(key=lambda choice: int(choice["index"]))
            return layout.wrap(choices, **totals())

        if body.stream:
            last = totals if body.include_usage else None
            texts = event_texts(counted(), layout, size=generation.size, totals=last)
            return EventStream(texts, release=release)
        try:
            return await json_response(request, whole())
        finally:
            release()


def make_app(
    engine: EmbeddedEngine,
    *,
    model_name: str,
    threads: int = 1,
    max_pending: int = MAX_PENDING,
    hosts: Hosts | None = None,
) -> FastAPI:
    """An app that serves ``engine`` as ``model_name``; the engine's thread runs while the app does.

    At most ``max_pending`` completions run or wait. ``hosts`` are accepted besides this machine's loopback names.

    Raises:
        BadInputError: the embedded engine cannot decode the model.
    """
    choose_decode_pass(engine.model)
    tokenizer, config = engine.tokenizer, engine.model.config.get_text_config()
    async_engine = AsyncEngine(base=engine, max_pending=max_pending, threads=threads)
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

    app = guarded_app(hosts, lifespan)
    app.state.engine = async_engine
    Routes(
        engine=async_engine,
        registry=ModelRegistry(
            engine=async_engine, base=model_name, context_tokens=prompts.context_tokens
        ),
        prompts=prompts,
        name_of=lru_cache(maxsize=65536)(partial(decode_token, tokenizer)),
    ).add_to(app)
    return app
