"""Bodies of requests in OpenAI's form, as far as the embedded engine can serve them.

What it cannot do is refused, never ignored: a sampling parameter that is dropped in silence gives
results of another distribution. A null means that the field is left out.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pipeline_lib.serving.chat_model import Decoding
from pipeline_lib.terminal_text import printable

_SEEDS = 2**64
_COMPLETION_TOKENS = 16
_MOST_TOKENS = 2**31
"""More than any context holds, and still a number that a tensor can."""
_MOST_STOPS = 4
"""As at OpenAI."""
_STOP_CHARACTERS = 1000
"""Each new token is compared with the beginnings of all stop strings."""
_NAME_CHARACTERS = 256
_PATH_CHARACTERS = 4096

# Fields of other servers, and the values that ask for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "ignore_eos": (False,),
    "include_stop_str_in_output": (False,),
    "logit_bias": ({},),
    "min_p": (0,),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "stop_token_ids": ([],),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_k": (0, -1),
}
# They say who asks and what for, and change no answer.
_LABELS = {
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
}


class _Body(BaseModel):
    """A JSON object from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_what_asks_for_nothing(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        rest = {}
        for name, value in data.items():
            if value is None or name in _LABELS:
                continue
            if name not in _NEUTRAL or name in cls.model_fields:
                rest[name] = value
            elif value not in _NEUTRAL[name]:
                raise ValueError(f"{name} is not supported by the embedded engine; leave it out")
        return rest


def _is_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is no text") from None
    return text


Text = Annotated[str, AfterValidator(_is_text)]
"""JSON's escapes can say what neither a tokenizer nor an answer can hold."""
FullText = Annotated[str, Field(min_length=1), AfterValidator(_is_text)]


def _is_plain(name: str) -> str:
    if printable(name) != name or "\n" in name:
        raise ValueError("control characters are no part of a name")
    return name


Name = Annotated[FullText, Field(max_length=_NAME_CHARACTERS), AfterValidator(_is_plain)]
"""It is listed, logged and printed."""


def _listed(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


def _parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _prompts(prompt: Any) -> list[Any]:
    if isinstance(prompt, str) or _are_ids(prompt):
        return [prompt]
    several = isinstance(prompt, list) and bool(prompt)
    if several and all(isinstance(one, str) or _are_ids(one) for one in prompt):
        return list(prompt)
    raise ValueError("give a text, token ids, or a list of either")


def _are_ids(prompt: Any) -> bool:
    whole = isinstance(prompt, list) and bool(prompt)
    return whole and all(type(token) is int for token in prompt)


def _are_texts(prompts: list[str | list[int]]) -> list[str | list[int]]:
    return [_is_text(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]


class StreamOptions(_Body):
    """What a stream tells beside text."""

    include_usage: bool = False


class _Sampling(_Body):
    """What completions and chat share."""

    model: Annotated[Text, Field(max_length=_PATH_CHARACTERS)] | None = None
    """A served name; without one, the base model."""
    max_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    n: Annotated[int, Field(ge=1)] = 1
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[
        list[Annotated[FullText, Field(max_length=_STOP_CHARACTERS)]],
        BeforeValidator(_listed),
        Field(max_length=_MOST_STOPS),
    ] = []
    """Always a list here; on the wire a single one may stand alone."""
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    """vLLM's field: choices carry ``token_ids``, the end token included."""

    @model_validator(mode="after")
    def _temperature_can_divide(self) -> "_Sampling":
        if 0 < self.temperature < 1e-3:
            raise ValueError(
                f"temperature={self.temperature}; give 0 for greedy, or at least 0.001"
            )
        return self

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def decoding(self, *, max_new_tokens: int) -> Decoding:
        """The same in the project's own terms."""
        return Decoding(
            temperature=self.temperature,
            top_p=self.top_p,
            max_new_tokens=max_new_tokens,
            stop=tuple(self.stop),
        )


class CompletionBody(_Sampling):
    """Of ``/v1/completions``."""

    prompt: Annotated[list[str | list[int]], BeforeValidator(_prompts), AfterValidator(_are_texts)]
    """Always a list here; on the wire a single text or the ids of a single prompt stand alone."""
    logprobs: Annotated[int, Field(ge=0, le=1)] | None = None
    """0 or 1: the drawn token's own; alternatives are not reported."""
    add_special_tokens: bool = False
    """vLLM's field, but false when left out: a prompt is taken as it stands, as in process."""

    @property
    def wanted_tokens(self) -> int:
        """The limit of a completion, 16 as at OpenAI when it is left out."""
        return self.max_tokens or _COMPLETION_TOKENS


class TextPart(_Body):
    """One part of a message's content; only text is understood."""

    type: Literal["text"]
    text: Text


class Message(_Body):
    """One turn. The model's chat template decides which roles it takes."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[list[TextPart], BeforeValidator(_parts)]
    """On the wire a text alone is usual."""
    name: Text | None = None

    def plain(self) -> dict[str, str]:
        """For the template: the text parts joined by line ends."""
        text = "\n".join(part.text for part in self.content)
        return {"role": self.role, "content": text} | ({"name": self.name} if self.name else {})


class ChatBody(_Sampling):
    """Of ``/v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=1)] | None = None
    """0 or 1: the drawn token's own; alternatives are not reported."""

    @property
    def wanted_tokens(self) -> int | None:
        """The limit of a completion; None means all that the context has left."""
        return self.max_completion_tokens or self.max_tokens


class LoadAdapterBody(_Body):
    """Of ``/v1/load_lora_adapter``, as at vLLM."""

    lora_name: Name
    lora_path: Annotated[FullText, Field(max_length=_PATH_CHARACTERS)]
    """A folder that the server can read."""
    load_inplace: bool = False
    """Replace an adapter of the same name."""


class UnloadAdapterBody(_Body):
    """Of ``/v1/unload_lora_adapter``, as at vLLM."""

    lora_name: Name


def choice_seeds(seed: int, *, count: int) -> list[int]:
    """Seeds of the ``count`` completions of one prompt: ``seed``, ``seed + 1`` and so on.

    As at vLLM, where every prompt of a list starts anew from ``seed``. Negative seeds are read as
    unsigned numbers of 64 bits. So n seeds of one's own are n requests, or n prompts of one token
    each; a single completion has just the seed that was sent, as in process.
    """
    return [(seed + index) % _SEEDS for index in range(count)]
