"""The settings of rollouts: engine, grammar, window and limits; how one draw of a thread is made."""

import asyncio
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import Completion, Decoding, Draws
from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.apr.draw_text import TextTokens
from pipeline_lib.systems.apr.threads import ThreadGrammar


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one rollout."""

    depth: int = 1
    """Generations of children; 1: children spawn none."""
    children: int = 64
    """Children of one spawn block."""
    draws: int = 64
    """Draws of one thread."""
    tokens: int | None = None
    """Drawn tokens of all threads together; None: unlimited."""


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
    begin: str = ""
    """Precedes each prompt on the wire, besides what the tokenizer puts there."""
    limits: Limits = Limits()
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
        return 0 if self.tokens is None else len(self.tokens.encode(self.begin + text))

    async def draw(self, text: str, seed: int, *, max_tokens: int) -> Completion:
        """One draw, once a slot is free."""
        # A server that does not name its stop leaves a forged join and an end token alike.
        stops = (
            (*self.grammar.forbidden, *self.grammar.terminators) if self.draws.names_stops else ()
        )
        decoding = replace(self.decoding, max_new_tokens=max_tokens, stop=stops)
        async with self.slots:
            return await self.draws.draw(self.begin + text, seed, decoding)
