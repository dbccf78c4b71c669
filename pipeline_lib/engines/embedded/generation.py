"""One request between the engine's thread and the event loop: deltas of its completions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.embedded.token_text import (
    IncrementalDetokenizer,
    StopStringFilter,
    TokenDecoder,
)
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import FinishReason


class EngineStoppedError(ReasonloopError):
    """The engine has failed or is stopping."""

    def __init__(self, reason: str, *, failed: bool) -> None:
        super().__init__(reason)
        self.failed = failed


class QueueFullError(ReasonloopError):
    """Too many completions are pending."""


class DrawFailedError(EngineStoppedError):
    """The completions of one request cannot be drawn; other requests are unaffected."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, failed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt, and a seed per completion."""

    ids: Sequence[int]
    seeds: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceDelta:
    """New text and tokens of one completion. The last delta has a finish reason."""

    index: int
    """Of the completion in its request, prompt by prompt."""
    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: FinishReason | None
    cached_tokens: int
    """In a prompt's first delta: its tokens whose prefill was reused."""
    stopped_by: str | None = None
    """In the last delta: the stop string that ended the text, if one did."""


class Generation:
    """The completions of one request; iterate once, in the event loop."""

    def __init__(self, *, size: int) -> None:
        self.size = size
        self.unfinished = size
        """Completions whose last delta has not been iterated over."""
        self._arrived: list[ChoiceDelta | EngineStoppedError] = []
        self._more = asyncio.Event()

    def receive(self, item: ChoiceDelta | EngineStoppedError) -> None:
        """Add a delta or an error; call in the event loop."""
        self._arrived.append(item)
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[list[ChoiceDelta]]:
        """Deltas in the groups in which they arrive, until all completions have ended.

        Raises:
            EngineStoppedError: the engine stopped before that.
        """
        while self.unfinished:
            await self._more.wait()
            self._more.clear()
            arrived, self._arrived = self._arrived, []
            deltas = [item for item in arrived if isinstance(item, ChoiceDelta)]
            self.unfinished -= sum(delta.finished is not None for delta in deltas)
            yield deltas
            if errors := [item for item in arrived if isinstance(item, EngineStoppedError)]:
                raise errors[0]


@dataclass(slots=True, kw_only=True)
class ChoiceBuilder:
    """Collects the tokens of one completion, in the engine's thread."""

    generation: Generation
    index: int
    streamed: bool
    decoder: TokenDecoder
    stops: Sequence[str]
    _text: IncrementalDetokenizer | None = field(init=False)
    """None if neither a stream nor stop strings need the text before its end."""
    _filter: StopStringFilter = field(init=False)
    _shown: str = field(init=False, default="")
    _tokens: list[int] = field(init=False, default_factory=list)
    _logprobs: list[float] = field(init=False, default_factory=list)
    _cached_tokens: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._filter = StopStringFilter(stops=self.stops)
        wanted = self.streamed or self.stops
        self._text = IncrementalDetokenizer(decoder=self.decoder) if wanted else None

    def add_token(
        self, token: int, logprob: float, finished: FinishReason | None, *, cached_tokens: int
    ) -> ChoiceDelta | None:
        """Add a token; returns a delta at the end, and in a stream for new text.

        A stop string finishes the completion, whatever ``finished`` is.
        """
        self._tokens.append(token)
        self._logprobs.append(logprob)
        self._cached_tokens += cached_tokens
        if self._text is not None:
            self._shown += self._filter.push(self._text.push(token))
        if finished and self._filter.stopped_by is None:
            rest = self._text.finish() if self._text else self.decoder.decode(self._tokens)
            self._shown += self._filter.push(rest)
            self._shown += self._filter.finish()
        if self._filter.stopped_by is not None:
            finished = FinishReason.STOP
        return self._make_delta(finished) if finished or (self.streamed and self._shown) else None

    def _make_delta(self, finished: FinishReason | None) -> ChoiceDelta:
        delta = ChoiceDelta(
            index=self.index,
            text=self._shown,
            tokens=tuple(self._tokens),
            logprobs=tuple(self._logprobs),
            finished=finished,
            cached_tokens=self._cached_tokens,
            stopped_by=self._filter.stopped_by if finished else None,
        )
        self._shown, self._tokens, self._logprobs, self._cached_tokens = "", [], [], 0
        return delta
