"""What one request gets from the engine's thread: pieces of text, in the event loop's own time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.front.token_text import StopWatch, TokenDecoder, TokenText


class EngineGoneError(ReasonloopError):
    """What the engine was asked for will not come: it failed, or it is stopping."""

    def __init__(self, reason: str, *, failed: bool) -> None:
        super().__init__(reason)
        self.failed = failed


class QueueFullError(ReasonloopError):
    """More completions are wanted than may wait."""


class DrawFailedError(EngineGoneError):
    """The completions of one request cannot be drawn; those of others can."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, failed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one completion grew by. Its last piece has a finish reason."""

    index: int
    """Which completion: those of the first prompt, then those of the second, and so on."""
    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: FinishReason | None
    cached_tokens: int
    """With a prompt's first piece: how many of its tokens had been computed before."""


class Generation:
    """The completions of one request; to be iterated over once, in the event loop."""

    def __init__(self, *, size: int) -> None:
        self.size = size
        self.going = size
        """Completions whose last piece was not seen yet."""
        self._arrived: list[Piece | EngineGoneError] = []
        self._more = asyncio.Event()

    def receive(self, item: Piece | EngineGoneError) -> None:
        """Hand something over; to be called in the event loop."""
        self._arrived.append(item)
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[list[Piece]]:
        """Pieces as they come, those together that came together, until all have ended.

        Raises:
            EngineGoneError: the rest will not come.
        """
        while self.going:
            await self._more.wait()
            self._more.clear()
            arrived, self._arrived = self._arrived, []
            pieces = [item for item in arrived if isinstance(item, Piece)]
            self.going -= sum(piece.finished is not None for piece in pieces)
            yield pieces
            if gone := [item for item in arrived if isinstance(item, EngineGoneError)]:
                raise gone[0]


@dataclass(slots=True, kw_only=True)
class GrowingChoice:
    """One completion in the making, in the engine's thread."""

    generation: Generation
    index: int
    streamed: bool
    decoder: TokenDecoder
    stops: Sequence[str]
    _text: TokenText | None = field(init=False)
    """None where the text is wanted only whole, and nothing is looked for in it."""
    _watch: StopWatch = field(init=False)
    _shown: str = field(init=False, default="")
    _tokens: list[int] = field(init=False, default_factory=list)
    _logprobs: list[float] = field(init=False, default_factory=list)
    _cached_tokens: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._watch = StopWatch(stops=self.stops)
        wanted = self.streamed or self.stops
        self._text = TokenText(decoder=self.decoder) if wanted else None

    def take(
        self, token: int, logprob: float, finished: FinishReason | None, *, cached_tokens: int
    ) -> Piece | None:
        """Add a token; a piece where there is something to tell.

        A completion whose text came to a stop string is finished, whatever ``finished`` says.
        """
        self._tokens.append(token)
        self._logprobs.append(logprob)
        self._cached_tokens += cached_tokens
        if self._text is not None:
            self._shown += self._watch.push(self._text.push(token))
        if finished and not self._watch.hit:
            rest = self._text.finish() if self._text else self.decoder.decode(self._tokens)
            self._shown += self._watch.push(rest)
            self._shown += self._watch.finish()
        if self._watch.hit:
            finished = FinishReason.STOP
        return self._piece(finished) if finished or (self.streamed and self._shown) else None

    def _piece(self, finished: FinishReason | None) -> Piece:
        piece = Piece(
            index=self.index,
            text=self._shown,
            tokens=tuple(self._tokens),
            logprobs=tuple(self._logprobs),
            finished=finished,
            cached_tokens=self._cached_tokens,
        )
        self._shown, self._tokens, self._logprobs, self._cached_tokens = "", [], [], 0
        return piece
