"""What servers answer, read with suspicion: a gap is an error, never an invented value."""

from itertools import starmap
from typing import TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import Completion

_FINISHED = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class BadAnswerError(ReasonloopError):
    """A server answered with success, but not with completions that can be used."""


class _Part(BaseModel):
    # Every server adds fields of its own.
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
    """Of a completion (``token_logprobs``) or of a chat (``content``)."""

    token_logprobs: list[float | None] | None = None
    content: list[_TokenLogprob] | None = None

    @property
    def values(self) -> tuple[float, ...] | None:
        """One a token; None where one of them is missing."""
        if self.content is not None:
            return tuple(token.logprob for token in self.content)
        found = [value for value in self.token_logprobs or () if value is not None]
        return tuple(found) if len(found) == len(self.token_logprobs or ()) > 0 else None


class _Message(_Part):
    content: str | None = None


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
    """What ended it: a text, or the id of an end token. vLLM has the one name, SGLang the other."""


class _Answer(_Part):
    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class _Card(_Part):
    id: str
    owned_by: str = ""


class _Cards(_Part):
    data: list[_Card]


def read_models(content: bytes) -> dict[str, str]:
    """The names of the models that a server lists, each with its owner.

    Raises:
        BadAnswerError: it is no such list.
    """
    return {card.id: card.owned_by for card in _parsed(_Cards, content).data}


def read_answer(
    content: bytes, *, wanted: int, model: str | None, latency_s: float
) -> list[Completion]:
    """The completions of one answer, in the order of their indices.

    Args:
        content: the body.
        wanted: so many were asked for; a server that does not know ``n`` gives fewer.
        model: whose answer it must be; None accepts any (aliases answer under a full name).
        latency_s: how long the answer took.

    Raises:
        BadAnswerError: not JSON, no choices, more choices than asked for, or another model's; or
            no token counts, without which nothing could be accounted for.
    """
    answer = _parsed(_Answer, content)
    if model is not None and answer.model != model:
        raise BadAnswerError(f"the answer is from model {answer.model}, not {model}")
    if len(answer.choices) > wanted:
        raise BadAnswerError(f"{len(answer.choices)} completions came for {wanted}")
    if answer.usage is None:
        raise BadAnswerError("the answer has no usage, so its tokens cannot be counted")
    usage, alone = answer.usage, len(answer.choices) == 1
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details else None

    def completion(place: int, choice: _Choice) -> Completion:
        drawn = usage.completion_tokens if alone else _counted(choice)
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
            token_ids=tuple(choice.token_ids) if choice.token_ids is not None else None,
            token_logprobs=logprobs,
            stopped_by=choice.stop_reason if isinstance(choice.stop_reason, str) else None,
            opens_request=place == 0,
        )

    ordered = sorted(answer.choices, key=lambda choice: choice.index)
    return list(starmap(completion, enumerate(ordered)))


def _text(choice: _Choice) -> str:
    if choice.message is not None:
        # Null where a server keeps all that was said as reasoning, or as a refusal.
        return choice.message.content or ""
    if choice.text is None:
        raise BadAnswerError("a completion has neither text nor message")
    return choice.text


def _counted(choice: _Choice) -> int:
    """Tokens of one of several completions; the answer's usage has but their sum."""
    if choice.token_ids is not None:
        return len(choice.token_ids)
    if choice.logprobs and choice.logprobs.values:
        return len(choice.logprobs.values)
    raise BadAnswerError("several completions without token ids or log-probabilities to count by")


_Read = TypeVar("_Read", bound=_Part)


def _parsed(kind: type[_Read], content: bytes) -> _Read:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadAnswerError(
            f"the answer cannot be read: {f'{place}: ' if place else ''}{first['msg']}"
        ) from error
