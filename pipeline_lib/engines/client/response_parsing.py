"""Strict parsing of responses: a missing field is an error, never a default."""

from collections.abc import Callable, Mapping
from itertools import starmap
from typing import TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import ReasonloopError, first_fault
from pipeline_lib.records import FinishReason

FINISHED: Mapping[str, FinishReason] = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
"""By the server's ``finish_reason``; any other one is a failure."""


class BadResponseError(ReasonloopError):
    """A response with a success status and unusable content."""


class Part(BaseModel):
    """A part of a response, with the fields that are read here."""

    # Servers add fields of their own.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _PromptDetails(Part):
    cached_tokens: int | None = None


class TokenCounts(Part):
    """``usage`` of a response."""

    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _PromptDetails | None = None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens whose prefill was reused; 0 if the server does not report them."""
        details = self.prompt_tokens_details
        return (details.cached_tokens if details else None) or 0


class _TokenLogprob(Part):
    logprob: float


class _Logprobs(Part):
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


class Content(Part):
    """A message, or its part in a chunk of a stream."""

    content: str | None = None
    reasoning: str | None = Field(
        default=None, validation_alias=AliasChoices("reasoning_content", "reasoning")
    )
    """The names are of DeepSeek and SGLang, and of vLLM."""


class _Choice(Part):
    index: int = 0
    text: str | None = None
    message: Content | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None
    stop_reason: int | str | None = Field(
        default=None, validation_alias=AliasChoices("stop_reason", "matched_stop")
    )
    """A stop string, or the id of an end token. The names are vLLM's and SGLang's."""


class _Completions(Part):
    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)
    usage: TokenCounts | None = None


class _Model(Part):
    id: str
    owned_by: str = ""


class _Models(Part):
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

    def completion(place: int, choice: _Choice) -> Completion:
        drawn = usage.completion_tokens if alone else _token_count(choice)
        finish_reason = FINISHED.get(choice.finish_reason or "")
        failed = finish_reason is None
        logprobs = choice.logprobs.values if choice.logprobs else None
        return Completion(
            text="" if failed else _text(choice),
            finish_reason=finish_reason or FinishReason.ERROR,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=drawn,
            logprob=sum(logprobs) if logprobs else None,
            error=f"the server ended it with {choice.finish_reason!r}" if failed else None,
            cached_tokens=usage.cached_tokens,
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


_Response = TypeVar("_Response", bound=Part)


def _parse(kind: type[_Response], content: bytes) -> _Response:
    return _checked(lambda: kind.model_validate_json(content))


def parse_attributes(kind: type[_Response], content: object) -> _Response:
    """An object's attributes as ``kind``.

    Raises:
        BadResponseError: they are none.
    """
    return _checked(lambda: kind.model_validate(content, from_attributes=True))


def _checked(parse: Callable[[], _Response]) -> _Response:
    try:
        return parse()
    except ValidationError as error:
        raise BadResponseError(f"the response cannot be read: {first_fault(error)}") from error
