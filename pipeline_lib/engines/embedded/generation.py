"""One request between the engine's thread and the event loop: its text token by token, as deltas.

A token may end within a character, and the next one may complete a stop string. So text is emitted
only once no later token can change it; the emitted parts add up to exactly the decoded whole.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipeline_lib.engines.tokens import decode_completion
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import FinishReason

Decode = Callable[[Sequence[int]], str]

# Decoded in place of bytes that are not a character, or not yet.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDecoder:
    """Decodes token ids to text, without special tokens."""

    decode: Decode
    byte_ids: frozenset[int]
    """Single-byte tokens, as in SentencePiece. A run of them is decoded as a whole, so none is final
    before the run has ended."""
    special_ids: frozenset[int]
    """Tokens without text; they do not interrupt a run of bytes."""

    @classmethod
    def of(cls, tokenizer: Any) -> "TokenDecoder":
        """The decoder of a Hugging Face tokenizer."""
        vocabulary = tokenizer.get_vocab()
        names = (f"<0x{byte:02X}>" for byte in range(256))
        return cls(
            decode=partial(decode_completion, tokenizer),
            byte_ids=frozenset(vocabulary[name] for name in names if name in vocabulary),
            special_ids=frozenset(
                number for number, token in tokenizer.added_tokens_decoder.items() if token.special
            ),
        )


@dataclass(slots=True)
class IncrementalDetokenizer:
    """Text of one completion, emitted as soon as it is final.

    Tokens are decoded together with the last emitted part's tokens, since some tokenizers drop the
    space before a first token.
    """

    decoder: TokenDecoder
    _window: list[int] = field(default_factory=list)
    _context: int = 0
    """Leading tokens of the window whose text was emitted completely."""
    _shown: int = 0
    """Leading characters of the window's text that were emitted."""

    def push(self, token: int) -> str:
        """The text that this token makes final, often empty."""
        if token in self.decoder.special_ids:
            return ""
        self._window.append(token)
        if token in self.decoder.byte_ids:
            return ""
        text = self.decoder.decode(self._window)
        if text.endswith(_REPLACEMENT):
            # Of several replacement characters only the last may still become another one.
            return self._take(text[:-1])
        piece = self._take(text)
        if piece:
            del self._window[: self._context]
            self._context = len(self._window)
            self._shown = len(self.decoder.decode(self._window))
        return piece

    def finish(self) -> str:
        """The rest of the text, after the last token."""
        return self._take(self.decoder.decode(self._window))

    def _take(self, text: str) -> str:
        piece = text[self._shown :]
        self._shown += len(piece)
        return piece


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The text before the first stop string in it, and this string; empty stop strings are ignored."""
    places = {stop: place for stop in stops if stop and (place := text.find(stop)) >= 0}
    first = min(places, key=places.__getitem__, default=None)
    return (text, None) if first is None else (text[: places[first]], first)


@dataclass(slots=True)
class StopStringFilter:
    """Holds back possible beginnings of stop strings, and ends the text before the first match."""

    stops: Sequence[str]
    stopped_by: str | None = None
    """The stop string that ended the text."""
    _held: str = ""

    def push(self, text: str) -> str:
        """The text that is not, and cannot become, part of a stop string."""
        self._held += text
        before, self.stopped_by = cut_at_stop(self._held, self.stops)
        if self.stopped_by is not None:
            return before
        keep = max((_overlap(self._held, stop) for stop in self.stops), default=0)
        free = self._held[: len(self._held) - keep]
        self._held = self._held[len(free) :]
        return free

    def finish(self) -> str:
        """The text held back, after the last text."""
        return "" if self.stopped_by is not None else self._held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest suffix of ``text`` that is a proper prefix of ``stop``."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)


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
    text: str = ""
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finished: FinishReason | None = None
    cached_tokens: int = 0
    """In a prompt's first delta: its tokens whose prefill was reused."""
    stopped_by: str | None = None
    """In the last delta: the stop string that ended the text, if one did."""
    reasoning: str | None = None
    """New reasoning that another server reports apart from ``text``."""


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
        """Deltas as they arrive together, until all completions have ended. EngineStoppedError: before that."""
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
