"""Parsing of a streamed completion: chunks to deltas, and to the completion at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.engines.client.response_parsing import (
    FINISHED,
    BadResponseError,
    Content,
    Part,
    TokenCounts,
    parse_attributes,
)
from pipeline_lib.records import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """New text of a completion that is being drawn."""

    text: str
    reasoning: str = ""
    """Reasoning that the server reports apart from the text."""


OnDelta = Callable[[Delta], None]


class BrokenStreamError(BadResponseError):
    """A stream ended before its completion did."""


class _Choice(Part):
    text: str | None = None
    delta: Content | None = None
    finish_reason: str | None = None


class _Chunk(Part):
    model: str | None = None
    choices: Annotated[list[_Choice], Field(max_length=1)] | None = None
    usage: TokenCounts | None = None


@dataclass(slots=True, kw_only=True)
class StreamReader:
    """Reads the stream of one completion."""

    model: str | None
    """Expected model name; None accepts any."""
    on_delta: OnDelta
    begun: bool = False
    """Text was delivered."""
    _texts: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _finished: str | None = None
    _usage: TokenCounts | None = None

    def read(self, chunk: object) -> None:
        """Read the next chunk: an object with the attributes of OpenAI's chunks.

        Raises:
            BadResponseError: it is none, or of another model.
        """
        self._add(parse_attributes(_Chunk, chunk))

    def _add(self, chunk: _Chunk) -> None:
        if self.model is not None and chunk.model != self.model:
            raise BadResponseError(f"the response is from model {chunk.model}, not {self.model}")
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices or ():
            self._finished = choice.finish_reason or self._finished
            content = choice.delta or Content(content=choice.text)
            delta = Delta(text=content.content or "", reasoning=content.reasoning or "")
            if delta.text or delta.reasoning:
                self._texts.append(delta.text)
                self._reasoning.append(delta.reasoning)
                self.begun = True
                self.on_delta(delta)

    def completion(self, *, latency_s: float) -> Completion:
        """The whole completion, after the last chunk.

        Raises:
            BadResponseError: the stream ended too early, or without token counts.
        """
        if self._finished is None:
            raise BrokenStreamError("the stream ended before the completion")
        if self._usage is None:
            raise BadResponseError("the stream has no usage, so its tokens cannot be counted")
        finish_reason = FINISHED.get(self._finished)
        failed = finish_reason is None
        return Completion(
            text="" if failed else "".join(self._texts),
            finish_reason=finish_reason or FinishReason.ERROR,
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens,
            logprob=None,
            error=f"the server ended it with {self._finished!r}" if failed else None,
            cached_tokens=self._usage.cached_tokens,
            latency_s=latency_s,
            reasoning="".join(self._reasoning) or None,
            opens_request=True,
        )
