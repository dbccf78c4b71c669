"""Request schemas: the part of OpenAI's API that the servers of this project support.

Unsupported fields are refused, never ignored: a sampling parameter that is dropped silently changes
the distribution. A null field counts as absent.
"""

import secrets
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.kinds.kind import Text, is_text
from pipeline_lib.terminal_text import printable

_SEEDS = 2**64
_COMPLETION_TOKENS = 16
_MOST_TOKENS = 2**31
"""Above any context length, and within the range of a tensor's integers."""
_MOST_STOPS = 4
"""OpenAI's limit."""
_STOP_CHARACTERS = 1000
"""Each new token is compared with the prefixes of all stop strings."""
_NAME_CHARACTERS = 256
_PATH_CHARACTERS = 4096

# Fields of other servers, their messages included, with their neutral values.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "annotations": ([],),
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
    "tool_calls": ([],),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_k": (0, -1),
    "type": ("text", "message"),
}
# Labels of the caller, without effect on the response.
_LABELS = {
    *("cache_control", "id", "metadata", "prompt_cache_key"),
    *("safety_identifier", "service_tier", "store", "user"),
}


class _Schema(BaseModel):
    """A JSON object from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_neutral_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        rest = {}
        for name, value in data.items():
            if value is None or name in _LABELS:
                continue
            if name not in _NEUTRAL or name in cls.model_fields:
                rest[name] = value
            elif value not in _NEUTRAL[name]:
                raise ValueError(f"{name} is not supported here; leave it out")
        return rest


FullText = Annotated[str, Field(min_length=1), AfterValidator(is_text)]


def _is_plain(name: str) -> str:
    if printable(name) != name or "\n" in name:
        raise ValueError("control characters are not allowed in a name")
    return name


Name = Annotated[FullText, Field(max_length=_NAME_CHARACTERS), AfterValidator(_is_plain)]
"""A model name: it is listed, logged and printed."""


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
    return [is_text(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]


class StreamOptions(_Schema):
    """Options of a stream."""

    include_usage: bool = False


class _Sampling(_Schema):
    """Fields common to completions and chat."""

    model: Annotated[Text, Field(max_length=_PATH_CHARACTERS)] | None = None
    """A served name; None: the base model."""
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
    """A single string is accepted, too."""
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    """vLLM's field: choices have ``token_ids``, the end token included."""

    @model_validator(mode="after")
    def _temperature_can_divide(self) -> "_Sampling":
        if 0 < self.temperature < 1e-3:
            raise ValueError(
                f"temperature={self.temperature}; give 0 for greedy, or at least 0.001"
            )
        return self

    @property
    def include_usage(self) -> bool:
        """True if a stream ends with token counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def seeds(self) -> list[int]:
        """Seeds of the completions of each prompt: ``seed``, ``seed + 1`` and so on; random without ``seed``.

        As in vLLM, every prompt of a list starts from ``seed``. Negative seeds are read as unsigned
        64-bit numbers.
        """
        first = secrets.randbits(63) if self.seed is None else self.seed
        return [(first + index) % _SEEDS for index in range(self.n)]

    def decoding(self, *, max_new_tokens: int) -> Decoding:
        """The sampling parameters as `Decoding`."""
        return Decoding(
            temperature=self.temperature,
            top_p=self.top_p,
            max_new_tokens=max_new_tokens,
            stop=tuple(self.stop),
        )


class CompletionRequest(_Sampling):
    """Request of ``/v1/completions``."""

    prompt: Annotated[list[str | list[int]], BeforeValidator(_prompts), AfterValidator(_are_texts)]
    """A single text, or the token ids of a single prompt, is accepted, too."""
    logprobs: Annotated[int, Field(ge=0, le=1)] | None = None
    """0 or 1: of the drawn token; alternatives are not supported."""
    add_special_tokens: bool = True
    """vLLM's field and default: a text gets the tokens that the tokenizer adds, token ids get none."""

    @property
    def wanted_tokens(self) -> int:
        """Limit of a completion; 16 by default, as at OpenAI."""
        return self.max_tokens or _COMPLETION_TOKENS


class TextPart(_Schema):
    """One part of a message's content; only text is supported."""

    type: Literal["text"]
    text: Text


class Message(_Schema):
    """One turn. The model's chat template may refuse roles."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[list[TextPart], BeforeValidator(_parts)] = []
    """A single text is accepted, too; of an empty reply, which clients send without it, null and none."""
    name: Text | None = None

    @model_validator(mode="after")
    def _is_asked(self) -> Self:
        if self.role != "assistant" and "content" not in self.model_fields_set:
            raise ValueError(f"a {self.role} message needs content")
        return self

    def plain(self) -> dict[str, str]:
        """For the chat template: text parts joined by newlines."""
        text = "\n".join(part.text for part in self.content)
        return {"role": self.role, "content": text} | ({"name": self.name} if self.name else {})


class ChatRequest(_Sampling):
    """Request of ``/v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=_MOST_TOKENS)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=1)] | None = None
    """0 or 1: of the drawn token; alternatives are not supported."""

    @property
    def wanted_tokens(self) -> int | None:
        """Limit of a completion; None: the rest of the context."""
        return self.max_completion_tokens or self.max_tokens


class LoadAdapterRequest(_Schema):
    """Request of ``/v1/load_lora_adapter``, as in vLLM."""

    lora_name: Name
    lora_path: Annotated[FullText, Field(max_length=_PATH_CHARACTERS)]
    """A folder on the server's machine."""
    load_inplace: bool = False
    """Replace an adapter of the same name."""


class UnloadAdapterRequest(_Schema):
    """Request of ``/v1/unload_lora_adapter``, as in vLLM."""

    lora_name: Name
