"""A server with SGLang's command line, routes, fields and semantics, which draws with the embedded engine.

Run as ``python -m sglang.launch_server`` in the environment of `environment.make_environment`. Options, requests and
responses are checked against the names and types of SGLang's own wheel (`contract`); what is not simulated is refused.
The names in comments are of SGLang's modules, where the simulated behaviour was read.
"""

import json
import os
import pathlib
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.generation import ChoiceDelta, Prompt
from pipeline_lib.engines.model_config import context_of
from pipeline_lib.engines.tokens import encode_prompt, encode_text, render_chat
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import FinishReason
from tests.unit.engines.sglang import contract

Json = dict[str, Any]
SIMULATED = {
    *("model", "prompt", "messages", "n", "seed", "max_tokens", "temperature", "top_p", "stop"),
    *("logprobs", "stream", "stream_options", "return_token_ids"),
}
NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
DEFAULT_SEED = 42  # sampling/sampling_batch_info.py
DEFAULT_TOKENS = 16
GREEDY = 1e-6  # sampling/sampling_params.py: _SAMPLING_EPS


class Server:
    """The routes, on one embedded engine."""

    def __init__(self, options: Any) -> None:
        self.options = options
        base = EmbeddedEngine.load(options.model_path, batch_size=64)
        self.engine = AsyncEngine(base=base, max_pending=1 << 20)
        self.tokenizer = base.tokenizer
        self.context_tokens = context_of(base.model.config.to_dict())
        self.adapters: dict[str, tuple[str, str]] = {}
        """Folder, and key in the engine, by name."""

    async def models(self, _request: Request) -> Response:
        base = self.options.served_model_name or self.options.model_path
        cards = [_card(base, root=base, parent=None, context=self.context_tokens)]
        for name, (folder, _) in self.adapters.items():
            cards.append(_card(name, root=folder, parent=base, context=None))
        return _answer("ModelList", {"object": "list", "data": cards})

    async def health(self, _request: Request) -> Response:
        """200 once a token is drawn."""
        prompt, decoding = Prompt(ids=[0], seeds=[0]), Decoding(temperature=0, max_new_tokens=1)
        await self._whole(self.engine.submit([prompt], decoding, adapter=None, streamed=False))
        return Response()

    async def load(self, request: Request) -> Response:
        body = _checked_body("LoadLoRAAdapterReqInput", await request.json())
        name, folder = body["lora_name"], pathlib.Path(body["lora_path"])
        if not self.options.enable_lora:
            return self._updated("LoRA is not enabled. Please set `--enable-lora` to enable LoRA.")
        if name in self.adapters:
            return self._updated(f"LoRA adapter {name} is already loaded.")
        rank = json.loads((folder / "adapter_config.json").read_text("utf-8"))["r"]
        if rank > self.options.max_lora_rank:
            return self._updated(f"LoRA adapter {name} has rank {rank}")
        model = self.engine.model
        try:
            key = await self.engine.call(partial(model.attach, model.read(folder), source=folder))
        except ReasonloopError as error:
            return self._updated(str(error))
        self.adapters[name] = str(folder), key
        return self._updated(None)

    async def unload(self, request: Request) -> Response:
        name = _checked_body("UnloadLoRAAdapterReqInput", await request.json())["lora_name"]
        if name not in self.adapters:
            return self._updated(f"LoRA with name {name} does not exist.")
        _, key = self.adapters.pop(name)
        self.engine.retire(key)
        return self._updated(None)

    def _updated(self, problem: str | None) -> Response:
        content = {
            "success": problem is None,
            "error_message": problem,
            "loaded_adapters": {name: folder for name, (folder, _) in self.adapters.items()},
        }
        return _answer("LoRAUpdateOutput", content, status=200 if problem is None else 400)

    async def completions(self, request: Request) -> Response:
        body = _checked_body("CompletionRequest", await request.json())
        prompt = body["prompt"]
        several = prompt if isinstance(prompt[0], str | list) else [prompt]
        given = [several] if isinstance(several, str) else several
        # managers/tokenizer_manager.py: texts get special tokens, ids none.
        encode = partial(encode_text, self.tokenizer, add_special_tokens=True)
        prompts = [encode(one) if isinstance(one, str) else one for one in given]
        limit = body.get("max_tokens", DEFAULT_TOKENS)
        return await self._draw(body, prompts, limit, chat=False)

    async def chat(self, request: Request) -> Response:
        body = _checked_body("ChatCompletionRequest", await request.json())
        if body.get("stream") and body.get("return_token_ids"):
            raise ValueError("return_token_ids is not supported with streaming")
        prompt = encode_prompt(self.tokenizer, render_chat(self.tokenizer, body["messages"]))
        rest = (self.context_tokens or 0) - len(prompt) - 1
        return await self._draw(body, [prompt], body.get("max_tokens") or rest, chat=True)

    async def _draw(
        self, body: Json, prompts: list[list[int]], limit: int, *, chat: bool
    ) -> Response:
        self._check(body, prompts, limit)
        n, stop, temperature = body.get("n", 1), body.get("stop") or (), body.get("temperature", 1)
        decoding = Decoding(
            temperature=0 if temperature < GREEDY else temperature,
            top_p=body.get("top_p", 1.0),
            max_new_tokens=limit,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
        )
        # One seed for all n completions; without deterministic inference it is ignored.
        seed = body.get("seed", DEFAULT_SEED) % 2**64
        if not self.options.enable_deterministic_inference:
            seed = secrets.randbits(63)
        generation = self.engine.submit(
            [Prompt(ids=ids, seeds=[seed] * n) for ids in prompts],
            decoding,
            adapter=self._adapter(body["model"]),
            streamed=bool(body.get("stream")),
        )
        head = {"id": secrets.token_hex(16), "created": int(time.time()), "model": body["model"]}
        if body.get("stream"):
            texts = self._events(generation, body, head, prompts, chat=chat)
            return StreamingResponse(texts, media_type="text/event-stream")
        drawn = await self._whole(generation)
        choices = [self._choice(one, body, prompts[one.index // n], chat=chat) for one in drawn]
        content = {
            **head,
            "object": "chat.completion" if chat else "text_completion",
            "choices": choices,
            "usage": self._usage(prompts, drawn),
            "metadata": {"weight_version": "default"},
        }
        return _answer("ChatCompletionResponse" if chat else "CompletionResponse", content)

    def _adapter(self, model: str) -> str | None:
        """entrypoints/openai/serving_base.py: the part after the colon, whatever is before it."""
        name = model.partition(":")[2].strip()
        if name and name not in self.adapters:
            raise ValueError(f"The following requested LoRA adapters are not loaded: {name}")
        return self.adapters[name][1] if name else None

    def _check(self, body: Json, prompts: list[list[int]], limit: int) -> None:
        other = {name: value for name, value in body.items() if name not in SIMULATED}
        unknown = [name for name, value in other.items() if NEUTRAL.get(name) != value]
        if unknown:
            raise NotImplementedError(f"not simulated: {', '.join(unknown)}")
        if not isinstance(body.get("logprobs", False), bool) and body["logprobs"] > 0:
            raise NotImplementedError("not simulated: logprobs of other tokens")
        # layers/sampler.py: as of after temperature, unless this is set.
        original = os.environ.get("SGLANG_RETURN_ORIGINAL_LOGPROB") == "1"
        scaled = body.get("temperature", 1) >= GREEDY and body.get("temperature", 1) != 1
        if body.get("logprobs", False) is not False and scaled and not original:
            raise NotImplementedError("not simulated: log-probabilities after temperature")
        for ids in prompts:
            if self.context_tokens and len(ids) + limit > self.context_tokens:
                raise ValueError(
                    "Requested token count exceeds the model's maximum context length of "
                    f"{self.context_tokens} tokens."
                )

    async def _whole(self, generation: Any) -> list[ChoiceDelta]:
        try:
            found = [delta async for deltas in generation for delta in deltas]
        finally:
            if generation.unfinished:
                self.engine.cancel(generation)
        return sorted(found, key=lambda delta: delta.index)

    def _choice(self, drawn: ChoiceDelta, body: Json, prompt: list[int], *, chat: bool) -> Json:
        choice: Json = {"index": drawn.index, **self._end(drawn)}
        ids = {"prompt_token_ids": prompt}
        if chat:
            lines = [
                {"token": name, "bytes": list(name.encode()), "logprob": value, "top_logprobs": []}
                for name, value in zip(self._names(drawn), drawn.logprobs, strict=True)
            ]
            message = {"role": "assistant", "content": drawn.text}
            choice["message"] = message | {"reasoning_content": None, "tool_calls": None}
            choice["logprobs"] = {"content": lines} if body.get("logprobs") else None
            ids["response_token_ids"] = list(drawn.tokens)
        else:
            choice["text"] = drawn.text
            choice["logprobs"] = None
            if "logprobs" in body:
                choice["logprobs"] = {
                    "text_offset": [-1] * len(drawn.tokens),
                    "token_logprobs": list(drawn.logprobs),
                    "tokens": self._names(drawn),
                    "top_logprobs": [],
                }
            ids["token_ids"] = list(drawn.tokens)
        return choice | (ids if body.get("return_token_ids") else {})

    def _names(self, drawn: ChoiceDelta) -> list[str]:
        return [self.tokenizer.decode([token]) for token in drawn.tokens]

    @staticmethod
    def _end(drawn: ChoiceDelta) -> Json:
        """The stop string or the end token that was matched."""
        stopped = drawn.finished is FinishReason.STOP
        matched = drawn.stopped_by or (drawn.tokens[-1] if stopped else None)
        return {
            "finish_reason": drawn.finished.value if drawn.finished else None,
            "matched_stop": matched,
        }

    def _usage(self, prompts: list[list[int]], drawn: list[ChoiceDelta]) -> Json:
        """entrypoints/openai/usage_processor.py."""
        read, tokens = sum(map(len, prompts)), sum(len(one.tokens) for one in drawn)
        cached = {"cached_tokens": sum(one.cached_tokens for one in drawn)}
        return {
            "prompt_tokens": read,
            "completion_tokens": tokens,
            "total_tokens": read + tokens,
            "prompt_tokens_details": cached if self.options.enable_cache_report else None,
            "reasoning_tokens": 0,
            "completion_tokens_details": None,
        }

    async def _events(
        self, generation: Any, body: Json, head: Json, prompts: list[list[int]], *, chat: bool
    ) -> AsyncIterator[str]:
        kind = "ChatCompletionStreamResponse" if chat else "CompletionStreamResponse"
        common = head | {"object": "chat.completion.chunk" if chat else "text_completion"}
        drawn = []

        def event(choices: list[Json], **more: Any) -> str:
            content = contract.checked(kind, {**common, "choices": choices, **more})
            return f"data: {json.dumps(content)}\n\n"

        async for deltas in generation:
            for delta in deltas:
                drawn.append(delta)
                parts = {"text": delta.text}
                if chat:
                    parts = {"delta": {"role": "assistant", "content": delta.text}}
                yield event([{"index": delta.index, "logprobs": None, **self._end(delta), **parts}])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield event([], usage=self._usage(prompts, drawn))
        yield "data: [DONE]\n\n"


def _card(name: str, *, root: str, parent: str | None, context: int | None) -> Json:
    fields = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang"}
    return fields | {"root": root, "parent": parent, "max_model_len": context}


def _checked_body(kind: str, content: Any) -> Json:
    return {
        name: value for name, value in contract.checked(kind, content).items() if value is not None
    }


def _answer(kind: str, content: Json, *, status: int = 200) -> Response:
    return JSONResponse(contract.checked(kind, content), status)


def _refused(_request: Request, error: Exception) -> Response:
    """entrypoints/openai/serving_base.py: 400 for a ValueError; 501 for what is not simulated."""
    status = 501 if isinstance(error, NotImplementedError) else 400
    content = {"object": "error", "message": str(error), "type": "BadRequest", "param": None}
    return _answer("ErrorResponse", {**content, "code": status}, status=status)


def main() -> None:
    """Serve until a signal."""
    parser = contract.parser()
    options = parser.parse_args()
    if options.model_path is None:
        parser.error("the following arguments are required: --model-path")
    # arg_groups/lora_hook.py
    if options.enable_lora and not (options.max_lora_rank and options.lora_target_modules):
        parser.error("you need to specify both --max-lora-rank and --lora-target-modules")
    # arg_groups/validation_hook.py
    if ":" in (options.served_model_name or ""):
        parser.error("served_model_name cannot contain a colon (':') character.")
    server = Server(options)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        server.engine.start()
        yield
        server.engine.stop()

    app = Starlette(
        routes=[
            Route("/v1/models", server.models),
            Route("/health_generate", server.health),
            Route("/v1/completions", server.completions, methods=["POST"]),
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/load_lora_adapter", server.load, methods=["POST"]),
            Route("/unload_lora_adapter", server.unload, methods=["POST"]),
        ],
        exception_handlers=dict.fromkeys(
            (ValueError, ValidationError, NotImplementedError), _refused
        ),
        lifespan=lifespan,
    )
    uvicorn.run(
        app,
        host=options.host,
        port=options.port,
        log_level=options.log_level_http or "info",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main()
    # The interpreter's shutdown would wait for a step of the engine.
    sys.stdout.flush()
    os._exit(0)
