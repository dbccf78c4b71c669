"""Strict parsing of responses, whole or streamed: a missing field is an error, never a default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, ValidationError

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import ReasonloopError, first_fault
from pipeline_lib.records import FinishReason

FINISHED: Mapping[str, FinishReason] = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
"""By the server's ``finish_reason``; any other one is a failure."""

OTHER_MODEL = "the response is from model"
"""Begins the error of a reply of another model, or of another version of an adapter."""


class BadResponseError(ReasonloopError):
    """A response with a success status and unusable content."""


class Part(BaseModel):
    """A part of a response, with the fields that are read here."""

    # Servers add fields of their own.
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class TokenCounts(Part):
    """``usage`` of a response."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = Field(
        default=None, validation_alias=AliasPath("prompt_tokens_details", "cached_tokens")
    )
    """Prompt tokens whose prefill was reused; None if the server does not report them."""


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
    delta: Content | None = None
    """In a chunk of a stream."""
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = Field(
        default=None, validation_alias=AliasChoices("token_ids", "response_token_ids")
    )
    """The second name is SGLang's in a chat."""
    stop_reason: int | str | None = Field(
        default=None, validation_alias=AliasChoices("stop_reason", "matched_stop")
    )
    """A stop string, or the id of an end token. The names are vLLM's and SGLang's."""


class _Response(Part):
    """A response with completions, or a chunk of a stream."""

    model: str | None = None
    choices: list[_Choice] | None = None
    usage: TokenCounts | None = None

    def check_model(self, model: str | None) -> None:
        if model is not None and self.model != model:
            raise BadResponseError(f"{OTHER_MODEL} {self.model}, not {model}")


class _Model(Part):
    id: str
    owned_by: str = ""


class _Models(Part):
    data: list[_Model]


def parse_models(content: bytes) -> dict[str, str]:
    """Model names and their owners in a response of ``/v1/models``; BadResponseError if it is none."""
    found = _checked(lambda: _Models.model_validate_json(content))
    return {model.id: model.owned_by for model in found.data}


def parse_completions(
    content: bytes, *, wanted: int, model: str | None, latency_s: float
) -> list[Completion]:
    """The completions of one response to a request for ``wanted``, in the order of their indices.

    A server that ignores ``n`` returns fewer. Aliases answer under a full name; ``model`` None accepts any.

    Raises:
        BadResponseError: not JSON; no choices, or too many; another model; no token counts.
    """
    response = _checked(lambda: _Response.model_validate_json(content))
    ordered = sorted(response.choices or (), key=lambda choice: choice.index)
    if not 0 < len(ordered) <= wanted:
        raise BadResponseError(f"{len(ordered)} completions for {wanted} requested")
    response.check_model(model)
    return [
        _completion(
            choice,
            response.usage,
            tokens=None if len(ordered) == 1 else _token_count(choice),
            latency_s=latency_s,
            opens_request=place == 0,
        )
        for place, choice in enumerate(ordered)
    ]


def _completion(
    choice: _Choice,
    usage: TokenCounts | None,
    *,
    tokens: int | None,
    latency_s: float,
    opens_request: bool = True,
) -> Completion:
    """A completion of ``tokens``; None: of all that ``usage`` counts."""
    if usage is None:
        raise BadResponseError("the response has no usage, so its tokens cannot be counted")
    finish_reason = FINISHED.get(choice.finish_reason or "")
    failed = finish_reason is None
    logprobs = choice.logprobs.values if choice.logprobs else None
    return Completion(
        text="" if failed else _text(choice),
        finish_reason=finish_reason or FinishReason.ERROR,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens if tokens is None else tokens,
        logprob=sum(logprobs) if logprobs else None,
        error=f"the server ended it with {choice.finish_reason!r}" if failed else None,
        cached_tokens=usage.cached_tokens or 0,
        latency_s=latency_s,
        reasoning=choice.message.reasoning if choice.message else None,
        token_ids=tuple(choice.token_ids) if choice.token_ids is not None else None,
        token_logprobs=logprobs,
        stopped_by=choice.stop_reason if isinstance(choice.stop_reason, str) else None,
        opens_request=opens_request,
    )


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


_Parsed = TypeVar("_Parsed")


def _checked(parse: Callable[[], _Parsed]) -> _Parsed:
    try:
        return parse()
    except ValidationError as error:
        raise BadResponseError(f"the response cannot be read: {first_fault(error)}") from error


OnDelta = Callable[[str, str], None]
"""Called with new text of a completion that is being drawn, and new reasoning, which the server reports apart."""


class BrokenStreamError(BadResponseError):
    """A stream ended before its completion did."""


@dataclass(slots=True, kw_only=True)
class StreamReader:
    """Reads the stream of one completion."""

    model: str | None
    """Expected model name; None accepts any."""
    on_delta: OnDelta
    _deltas: list[tuple[str, str]] = field(default_factory=list)
    _finished: str | None = None
    _usage: TokenCounts | None = None

    @property
    def begun(self) -> bool:
        """Text was delivered."""
        return bool(self._deltas)

    def read(self, chunk: object) -> None:
        """Read the next chunk, with OpenAI's attributes. BadResponseError: it is none, or of another model."""
        found = _checked(lambda: _Response.model_validate(chunk, from_attributes=True))
        found.check_model(self.model)
        if len(found.choices or ()) > 1:
            raise BadResponseError(f"{len(found.choices or ())} choices in a chunk")
        self._usage = found.usage or self._usage
        for choice in found.choices or ():
            self._finished = choice.finish_reason or self._finished
            content = choice.delta or Content(content=choice.text)
            delta = (content.content or "", content.reasoning or "")
            if any(delta):
                self._deltas.append(delta)
                self.on_delta(*delta)

    def completion(self, *, latency_s: float) -> Completion:
        """The completion after the last chunk. BadResponseError: the stream ended too early, or without counts."""
        if self._finished is None:
            raise BrokenStreamError("the stream ended before the completion")
        text, reasoning = map("".join, zip(*self._deltas, strict=True)) if self.begun else ("", "")
        message = Content(content=text, reasoning=reasoning or None)
        choice = _Choice(message=message, finish_reason=self._finished)
        return _completion(choice, self._usage, tokens=None, latency_s=latency_s)
