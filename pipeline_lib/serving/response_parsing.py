"""Strict parsing of responses: a missing field is an error, never a default."""

from itertools import starmap
from typing import TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import Completion

_FINISHED = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class BadResponseError(ReasonloopError):
    """A response with a success status and unusable content."""


class _Part(BaseModel):
    # Servers add fields of their own.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _PromptDetails(_Part):
    cached_tokens: int | None = None


class _Usage(_Part):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _PromptDetails | None = None


class _TokenLogprob(_Part):
    logprob: float


class _Logprobs(_Part):
    """Log-probabilities of a completion (``token_logprobs``) or a chat (``content``)."""

    token_logprobs: list[float | None] | None = None
    content: list[_TokenLogprob] | None = None

    @property
    def values(self) -> tuple[float, ...] | None:
        """One per token; None if any is missing."""
        if self.content is not None:
            return tuple(token.logprob for token in self.content)
        found = [value for value in self.token_logprobs or () if value is not None]
        return tuple(found) if len(found) == len(self.token_logprobs or ()) > 0 else None


class _Message(_Part):
    content: str | None = None
    reasoning: str | None = Field(
        default=None, validation_alias=AliasChoices("reasoning_content", "reasoning")
    )
    """The names are of DeepSeek and SGLang, and of vLLM."""


class _Choice(_Part):
    index: int = 0
    text: str | None = None
    message: _Message | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None
    stop_reason: int | str | None = Field(
        default=None, validation_alias=AliasChoices("stop_reason", "matched_stop")
    )
    """A stop string, or the id of an end token. The names are vLLM's and SGLang's."""


class _Completions(_Part):
    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _Model(_Part):
    id: str
    owned_by: str = ""


class _Models(_Part):
    data: list[_Model]


def parse_models(content: bytes) -> dict[str, str]:
    """Model names and their owners in a response of ``/v1/models``.

    Raises:
        BadResponseError: it is not a list of models.
    """
    return {model.id: model.owned_by for model in _parse(_Models, content).data}


def parse_completions(
    content: bytes, *, wanted: int, model: str | None, latency_s: float
) -> list[Completion]:
    """The completions of one response, in the order of their indices.

    Args:
        content: Response body.
        wanted: Requested completions; a server that ignores ``n`` returns fewer.
        model: Expected model name; None accepts any (aliases answer under a full name).
        latency_s: Seconds from request to response.

    Raises:
        BadResponseError: not JSON; no choices, or more than ``wanted``; another model; no token
            counts.
    """
    response = _parse(_Completions, content)
    if model is not None and response.model != model:
        raise BadResponseError(f"the response is from model {response.model}, not {model}")
    if len(response.choices) > wanted:
        raise BadResponseError(f"{len(response.choices)} completions for {wanted} requested")
    if response.usage is None:
        raise BadResponseError("the response has no usage, so its tokens cannot be counted")
    usage, alone = response.usage, len(response.choices) == 1
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details else None

    def completion(place: int, choice: _Choice) -> Completion:
        drawn = usage.completion_tokens if alone else _token_count(choice)
        finish_reason = _FINISHED.get(choice.finish_reason or "")
        failed = finish_reason is None
        logprobs = choice.logprobs.values if choice.logprobs else None
        return Completion(
            text="" if failed else _text(choice),
            finish_reason=finish_reason or FinishReason.ERROR,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=drawn,
            logprob=sum(logprobs) if logprobs else None,
            error=f"the server ended it with {choice.finish_reason!r}" if failed else None,
            cached_tokens=cached or 0,
            latency_s=latency_s,
            reasoning=choice.message.reasoning if choice.message else None,
            token_ids=tuple(choice.token_ids) if choice.token_ids is not None else None,
            token_logprobs=logprobs,
            stopped_by=choice.stop_reason if isinstance(choice.stop_reason, str) else None,
            opens_request=place == 0,
        )

    ordered = sorted(response.choices, key=lambda choice: choice.index)
    return list(starmap(completion, enumerate(ordered)))


def _text(choice: _Choice) -> str:
    if choice.message is not None:
        # Null if a server reports all text as reasoning, or as a refusal.
        return choice.message.content or ""
    if choice.text is None:
        raise BadResponseError("a completion has neither text nor message")
    return choice.text


def _token_count(choice: _Choice) -> int:
    """Tokens of one of several completions; usage holds only their sum."""
    if choice.token_ids is not None:
        return len(choice.token_ids)
    if choice.logprobs and choice.logprobs.values:
        return len(choice.logprobs.values)
    raise BadResponseError("several completions without token ids or log-probabilities to count by")


_Response = TypeVar("_Response", bound=_Part)


def _parse(kind: type[_Response], content: bytes) -> _Response:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadResponseError(
            f"the response cannot be read: {f'{place}: ' if place else ''}{first['msg']}"
        ) from error
