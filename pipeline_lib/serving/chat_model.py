"""The one seam between reasonloop and whatever generates text.

An engine takes rendered prompts (see `sampling.prompts`) and draws paths for each. It knows nothing
of problems, verdicts or files. Every path has a seed of its own, so the same request gives the same
text whatever else is in the batch, up to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.records import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How completions are drawn. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    """Texts that end a completion; it is cut before the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt and the seeds of the completions wanted for it (N paths: N seeds)."""

    prompt: str
    """Rendered, special tokens included: it is tokenized without adding any."""
    seeds: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One completion. With FinishReason.ERROR the text is empty and ``error`` says why."""

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    logprob: float | None
    """Sum of natural-log probabilities of the tokens, before temperature; None if unknown."""
    error: str | None = None
    cached_tokens: int = 0
    """Those of ``prompt_tokens`` that the engine had computed before."""
    latency_s: float = 0.0
    """From sending the request to its whole answer."""
    token_ids: tuple[int, ...] | None = None
    """The drawn tokens, the end token included; None where the engine does not give them."""
    token_logprobs: tuple[float, ...] | None = None
    """One a token of the completion; ``logprob`` is their sum."""
    stopped_by: str | None = None
    """The stop text that ended it; None if nothing of the kind did, or the engine does not say."""
    opens_request: bool = False
    """Drawn by a further request for the same prompt, which paid for the prompt once more."""


class ChatFormat(Protocol):
    """A model's own chat template."""

    @property
    def digest(self) -> str:
        """Identity of the template."""
        ...

    def render(self, user_message: str) -> str:
        """The text that the model continues as the assistant, special tokens included."""
        ...


class ChatModel(Protocol):
    """A rollout engine."""

    @property
    def identity(self) -> str:
        """Digest of the weights, or the server's model id: part of every path's provenance."""
        ...

    @property
    def engine(self) -> str:
        """Which kind of engine it is; another one draws other tokens from the same seed."""
        ...

    @property
    def adapter(self) -> str | None:
        """``name@version`` of the LoRA adapter in use, if there is one."""
        ...

    @property
    def chat_format(self) -> ChatFormat | None:
        """The model's own chat template, or None for a plain completion model."""
        ...

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Completions per request, in the order of its seeds."""
        ...
