"""The settings of rollouts: engine, grammar, window and limits; how one draw of a thread is made, and where it is cut.

A drawn text, and its tokens, is cut before the first forbidden text, or behind the first that ends a draw.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import ChatModel, Completion, Decoding, Draws
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.embedded.draws import LiveDraws, LockstepDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.apr.threads import DEFAULT_LIMITS, Limits, TextTokens, ThreadGrammar


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDraw:
    """The kept part of a draw."""

    output: str
    forged: str | None
    """The forbidden text behind it, if there is one."""
    is_whole: bool
    """Nothing was drawn behind ``output``."""
    ids: tuple[int, ...] | None
    """Of ``output``, with the end token of a whole text; None if the engine gives none, or a token crosses
    the cut."""
    logprobs: tuple[float, ...] | None
    length: int
    """Tokens of ``output``; of a cut text without tokenizer, all that were drawn."""


def keep(completion: Completion, grammar: ThreadGrammar, tokens: TextTokens | None) -> KeptDraw:
    """Cut a completion at the first text of the grammar, whether or not the engine stopped there."""
    text, stop = completion.text, completion.stopped_by
    if stop is not None and stop in grammar.terminators:
        text += stop
    ends = [at + len(end) for end in grammar.terminators if (at := text.find(end)) >= 0]
    output = text[: min(ends, default=len(text))]
    places = {one: at for one in grammar.forbidden if (at := output.find(one)) >= 0}
    forged = min(places, key=places.__getitem__, default=None)
    if forged is not None:
        output = output[: places[forged]]
    elif stop in grammar.forbidden and not ends:
        forged = stop
    is_whole = forged is None and not text[len(output) :].strip()
    if is_whole:
        output = text
    ids = completion.token_ids
    if ids is not None and not is_whole:
        decode = None if tokens is None else tokens.decode
        ids = None if decode is None else _head(ids, output, decode)
    length = completion.completion_tokens if ids is None else len(ids)
    if ids is None and not is_whole and tokens is not None and tokens.count is not None:
        length = tokens.count(output)
    return KeptDraw(
        output=output,
        forged=forged,
        is_whole=is_whole,
        ids=ids,
        logprobs=completion.token_logprobs[: len(ids)]
        if ids and completion.token_logprobs
        else None,
        length=length,
    )


def _head(
    ids: Sequence[int], output: str, decode: Callable[[Sequence[int]], str]
) -> tuple[int, ...] | None:
    """The first ids, as many as decode to ``output``; None if no number of them does."""
    sizes = range(len(ids) + 1)
    size = bisect_right(sizes, len(output), key=lambda count: len(decode(ids[:count]))) - 1
    head = tuple(ids[:size])
    return head if decode(head) == output else None


UNBOUNDED = 1 << 30
"""Slots of draws in lockstep: a batch has all draws that can be made; the engine bounds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Engine, grammar, window and limits of rollouts."""

    grammar: ThreadGrammar
    draws: Draws
    decoding: Decoding
    """Of every draw; ``max_new_tokens`` is the most that one may draw."""
    slots: asyncio.Semaphore
    """One per draw in flight, over all rollouts."""
    seed: int
    tokens: TextTokens | None = None
    window: int | None = None
    """Tokens of a sequence with its prompt; needs ``tokens``."""
    wire: Callable[[str], str] = lambda text: text
    """The prompt of a text, as it is sent, without what the tokenizer puts before it."""
    limits: Limits = DEFAULT_LIMITS
    first_success: bool = False
    """The first child of a round with a result cancels its siblings."""

    def __post_init__(self) -> None:
        if self.window is not None and self.tokens is None:
            raise BadInputError(f"window={self.window}: needs the tokenizer of the model")

    def room(self, text: str) -> int:
        """Tokens that may be drawn after ``text``; below 1 if none."""
        most = self.decoding.max_new_tokens
        return most if self.window is None else min(most, self.window - self.count(text))

    def count(self, text: str) -> int:
        """Tokens of a context on the wire; 0 without a tokenizer."""
        return 0 if self.tokens is None else len(self.tokens.encode(self.wire(text)))

    async def draw(self, text: str, seed: int, *, max_tokens: int) -> Completion:
        """One draw, once a slot is free."""
        # A server that does not name its stop leaves a forged join and an end token alike.
        stops = (
            (*self.grammar.forbidden, *self.grammar.terminators) if self.draws.names_stops else ()
        )
        decoding = replace(self.decoding, max_new_tokens=max_tokens, stop=stops)
        async with self.slots:
            return await self.draws.draw(self.wire(text), seed, decoding)


@asynccontextmanager
async def open_draws(
    engine: ChatModel,
    *,
    lockstep: bool = True,
    encode: Callable[[str], list[int]] | None = None,
) -> AsyncIterator[Draws]:
    """Draws of an engine in this process or at a server, for the duration of the block.

    In process prompts are encoded by ``encode``, if it is given; a server has its own. In process and in ``lockstep`` all threads wait for a batch: work that is begun again gives the same tokens, rounding
    included.

    Raises:
        ReasonloopError: the server does not answer.
    """
    if isinstance(engine, EmbeddedEngine):
        async with open_live(engine) as live:
            kind = LockstepDraws if lockstep else LiveDraws
            yield kind(engine=live, encode=encode)
        return
    assert isinstance(engine, OpenAIModel)
    async with engine.open() as session:
        yield session
