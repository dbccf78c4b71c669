"""Responses in OpenAI's format: whole ones, the chunks of a stream, errors.

Completions and chat differ in names and in the layout of log-probabilities; each is a `ResponseLayout`. Of the
statuses of errors 400 and 404 fail again unchanged, 429 and 503 may be retried, 500 means that the engine is broken.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from typing_extensions import override

from pipeline_lib.engines.embedded.generation import ChoiceDelta, EngineStoppedError, QueueFullError
from pipeline_lib.errors import BadInputError

Json = dict[str, Any]

# JSON has no infinity.
_LEAST_LOGPROB = -9999.0


@dataclass(slots=True, kw_only=True)
class Usage:
    """Token counts of one request. A prompt counts once for all its completions."""

    prompt_tokens: int
    cached_tokens: int = 0
    """Prompt tokens whose prefill was reused, from this request or another."""
    completion_tokens: int = 0

    def add(self, deltas: Sequence[ChoiceDelta]) -> None:
        """Count the tokens of deltas."""
        self.completion_tokens += sum(len(delta.tokens) for delta in deltas)
        self.cached_tokens += sum(delta.cached_tokens for delta in deltas)

    def json(self) -> Json:
        """With OpenAI's names."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(kw_only=True)
class CompletionLayout:
    """A response of ``/v1/completions``, or its chunks: the common fields, and a choice's fields."""

    model: str
    logprobs: bool = False
    alternatives: int = 0
    """0 or 1: the drawn token itself."""
    token_ids: bool = False
    name_of: Callable[[int], str] = str
    kind: str = "text_completion"
    prefix: str = "cmpl"

    def __post_init__(self) -> None:
        self._head = {
            "id": f"{self.prefix}-{secrets.token_hex(16)}",
            "object": self.kind,
            "created": int(datetime.now(UTC).timestamp()),
            "model": self.model,
        }

    def wrap(self, choices: Sequence[Json], **more: Any) -> Json:
        """The response, or chunk, with these choices."""
        return {**self._head, "choices": list(choices), **more}

    def choice(self, delta: ChoiceDelta) -> Json:
        """A choice of a whole response."""
        return self._choice(delta, {"text": delta.text})

    def first_chunks(self, _indices: Iterable[int]) -> list[Json]:
        """Choices of a stream before their text: none."""
        return []

    def chunk(self, delta: ChoiceDelta) -> Json:
        """A choice in a chunk of a stream, with the text of the delta."""
        return self.choice(delta)

    def _choice(self, delta: ChoiceDelta, content: Json) -> Json:
        choice: Json = {
            "index": delta.index,
            **content,
            "logprobs": self._logprobs(delta) if self.logprobs else None,
            "finish_reason": delta.finished.value if delta.finished else None,
            "stop_reason": delta.stopped_by,
        }
        return choice | ({"token_ids": list(delta.tokens)} if self.token_ids else {})

    def _logprobs(self, delta: ChoiceDelta) -> Json:
        names = [self.name_of(token) for token in delta.tokens]
        values = [max(value, _LEAST_LOGPROB) for value in delta.logprobs]
        tops = [{name: value} for name, value in zip(names, values, strict=True)]
        return {
            "tokens": names,
            "token_logprobs": values,
            "top_logprobs": tops if self.alternatives else None,
        }


@dataclass(kw_only=True)
class ChatLayout(CompletionLayout):
    """As `CompletionLayout`, of ``/v1/chat/completions``."""

    kind: str = "chat.completion"
    prefix: str = "chatcmpl"
    streamed: bool = False

    @override
    def __post_init__(self) -> None:
        self.kind += ".chunk" if self.streamed else ""
        super().__post_init__()
        self._opened: set[int] = set()

    @override
    def choice(self, delta: ChoiceDelta) -> Json:
        """The assistant's message."""
        message = {"role": "assistant", "content": delta.text}
        known = {} if delta.reasoning is None else {"reasoning_content": delta.reasoning}
        return self._choice(delta, {"message": message | known})

    @override
    def first_chunks(self, indices: Iterable[int]) -> list[Json]:
        """The role of each choice, once."""
        new = [index for index in indices if index not in self._opened]
        self._opened.update(new)
        role = {"role": "assistant", "content": ""}
        return [
            {"index": index, "delta": role, "logprobs": None, "finish_reason": None}
            for index in new
        ]

    @override
    def chunk(self, delta: ChoiceDelta) -> Json:
        """The new text of the message."""
        parts = {"content": delta.text, "reasoning_content": delta.reasoning}
        return self._choice(delta, {"delta": {name: text for name, text in parts.items() if text}})

    @override
    def _logprobs(self, delta: ChoiceDelta) -> Json:
        lines = []
        for token, logprob in zip(delta.tokens, delta.logprobs, strict=True):
            name = self.name_of(token)
            # A part of a character has bytes, too, but the tokenizer does not report them.
            known = "\N{REPLACEMENT CHARACTER}" not in name
            line: Json = {
                "token": name,
                "logprob": max(logprob, _LEAST_LOGPROB),
                "bytes": list(name.encode()) if known else None,
            }
            lines.append(line | {"top_logprobs": [dict(line)] if self.alternatives else []})
        return {"content": lines}


_TYPES = {404: "not_found_error", 429: "rate_limit_error"}
_RETRY_AFTER_S = 1


class ApiError(Exception):
    """An error response."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """The JSON object of a response, or of an event within a stream."""
        kind = _TYPES.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        fields = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": fields}

    def response(self) -> JSONResponse:
        """The response."""
        again = {"Retry-After": str(_RETRY_AFTER_S)} if self.status in {429, 503} else None
        return JSONResponse(self.body(), status_code=self.status, headers=again)


def bad_field(param: str, problem: str, *, code: str | None = None) -> ApiError:
    """400 for a field of the request."""
    return ApiError(400, f"{param}: {problem}", param=param, code=code)


TOO_LONG = "context_length_exceeded"
"""The code of a prompt that does not fit."""


def unknown_model(name: str, served: Iterable[str], *, param: str) -> ApiError:
    """404 for a model that is not served."""
    message = f"the model {name} does not exist; served are: {', '.join(served)}"
    return ApiError(404, message, param=param, code="model_not_found")


def add_error_handlers(app: FastAPI) -> None:
    """Format every error of the app."""
    for kind in (
        *(ApiError, RequestValidationError, HTTPException, BadInputError),
        *(EngineStoppedError, QueueFullError, Exception),
    ):
        app.add_exception_handler(kind, _respond)


async def _respond(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        error = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    return as_api_error(error).response()


def as_api_error(error: Exception) -> ApiError:
    """The response to an exception: 503 while the server is stopping, which clients may retry; 500 for a bug."""
    match error:
        case ApiError():
            return error
        case RequestValidationError():
            return _bad_body(error.errors()[0])
        case BadInputError():
            return ApiError(400, str(error))
        case QueueFullError():
            return ApiError(429, str(error))
        case EngineStoppedError(failed=failed):
            return ApiError(500 if failed else 503, str(error))
        case _:
            return ApiError(500, f"{type(error).__name__} in the HTTP front")


def _bad_body(first: Mapping[str, Any]) -> ApiError:
    # Without the value: it may be a prompt.
    places = [str(place) for place in first["loc"] if place != "body"]
    where = ".".join(places)
    reason = str(first["msg"]).removeprefix("Value error, ")
    message = f"{where}: {reason}" if where else reason
    return ApiError(400, message, param=places[0] if places else None)
