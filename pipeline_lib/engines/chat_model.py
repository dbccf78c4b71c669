"""The seam between the loop and rollout engines: ChatModel, its requests and its completions; Scorer.

An engine takes rendered prompts (see `sampling.prompts`) and draws completions. Problems, verdicts
and files are outside. Every completion has its own seed, so a request gives the same text whatever
else is in the batch, up to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from pipeline_lib.records import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Sampling parameters. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    """Stop strings; the text ends before the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and one seed per completion (N paths: N seeds)."""

    prompt: str
    """Rendered; `tokens.encode_prompt` gives its token ids."""
    seeds: Sequence[int]
    model: str | None = None
    """Which of an engine's models draws them; None: it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One completion. With FinishReason.ERROR the text is empty and ``error`` gives the reason."""

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    logprob: float | None
    """Sum over the tokens of natural-log probabilities, before temperature; None if unknown."""
    error: str | None = None
    cached_tokens: int = 0
    """Part of ``prompt_tokens`` whose prefill was reused."""
    latency_s: float = 0.0
    """From sending the request to receiving the whole response."""
    token_ids: tuple[int, ...] | None = None
    """The drawn tokens, the end token included; None if the engine does not report them."""
    token_logprobs: tuple[float, ...] | None = None
    """Per token; ``logprob`` is their sum."""
    reasoning: str | None = None
    """Reasoning that the server reports apart from ``text``; None if it reports none."""
    stopped_by: str | None = None
    """The stop string that ended it; None if none did, or the engine does not report it."""
    opens_request: bool = False
    """First completion of its HTTP request; further requests for a prompt are billed for it again."""
    model: str | None = None
    """`Request.model`."""

    @classmethod
    def failed(
        cls,
        reason: str,
        *,
        prompt_tokens: int = 0,
        latency_s: float = 0.0,
        opens_request: bool = False,
    ) -> Self:
        """One that was not drawn, for ``reason``."""
        return cls(
            text="",
            finish_reason=FinishReason.ERROR,
            prompt_tokens=prompt_tokens,
            completion_tokens=0,
            logprob=None,
            error=reason,
            latency_s=latency_s,
            opens_request=opens_request,
        )


class Role(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str
    name: str | None = None
    """Of the author; a chat template may show it."""

    def fields(self) -> dict[str, str]:
        """As a chat template, or a chat route, takes it."""
        plain = {"role": str(self.role), "content": self.content}
        return plain if self.name is None else plain | {"name": self.name}

    @classmethod
    def user(cls, content: str) -> Self:
        """A turn of the user."""
        return cls(role=Role.USER, content=content)

    @classmethod
    def assistant(cls, content: str) -> Self:
        """A turn of the model."""
        return cls(role=Role.ASSISTANT, content=content)


Conversation = Sequence[Message]
"""Turns in their order; the last one is the user's."""


class ChatFormat(Protocol):
    """A model's own chat template."""

    @property
    def digest(self) -> str:
        """Digest of the template."""

    @property
    def is_compact(self) -> bool:
        """True: a user's message is a kind's compact prompt; the model reads no words."""

    def render(self, conversation: Conversation) -> str:
        """The prompt for the assistant's next turn, with its special tokens."""


class ChatModel(Protocol):
    """A rollout engine."""

    @property
    def identity(self) -> str:
        """Digest of the weights, or the server's model id; part of every path's provenance."""

    @property
    def engine(self) -> str:
        """Name of the engine; part of provenance, since engines differ in the tokens of a seed."""

    @property
    def adapter(self) -> str | None:
        """``name@version`` of the LoRA adapter in use, or None."""

    @property
    def arithmetic(self) -> str | None:
        """Precision and way of decoding, for the report; None if unknown."""

    @property
    def chat_format(self) -> ChatFormat | None:
        """The model's own chat template, or None for a plain completion model."""

    def room(self, prompt: str) -> int | None:
        """Tokens that the context leaves after a rendered prompt, negative if none; None: unknown."""

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Completions of each request, in the order of its seeds."""


class Draws(Protocol):
    """An engine that draws one completion per call; any number of calls may be open.

    For programs of many dependent calls: each has its own task, limit and stop strings, joins what the
    engine is drawing, and is cancelled with its task.
    """

    @property
    def names_stops(self) -> bool:
        """False: `Completion.stopped_by` is never set, so a stop string and an end token look alike."""

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion of a rendered prompt; a failed one has an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText:
    """A completion with its prompt."""

    prompt: str
    """Rendered."""
    text: str
    ended: bool
    """The policy drew the end token, which is then scored, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScore:
    """Confidence of the policy in one text."""

    self_certainty: float
    """Mean over the tokens of KL(uniform || next-token distribution), in nats."""
    read_tokens: int
    """Tokens of prompt and text, the compute of the score."""


class Scorer(Protocol):
    """Scores finished texts."""

    def score(self, texts: Sequence[ScoredText]) -> list[TextScore]:
        """One score per text, in order."""
