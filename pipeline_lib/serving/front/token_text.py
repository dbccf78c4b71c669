"""Text that grows token by token: what may be shown of it, and where a stop string ends it.

A token may hold half a character, and the next one may complete a stop string. So text is given
out only once no later token can change it, and what was given out, put together, is exactly the
decoded whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Decode = Callable[[Sequence[int]], str]

# What a decoder writes for bytes that are no character, or not yet one.
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDecoder:
    """A tokenizer's way from ids to text, special tokens left out."""

    decode: Decode
    byte_ids: frozenset[int]
    """Tokens of single bytes, as SentencePiece has them. A run of them is decoded as one, so that
    none is settled before the run has ended."""
    special_ids: frozenset[int]
    """Tokens that are left out; a run goes on behind them."""

    @classmethod
    def of(cls, tokenizer: Any) -> "TokenDecoder":
        """The decoder of a Hugging Face tokenizer."""
        vocabulary = tokenizer.get_vocab()
        names = (f"<0x{byte:02X}>" for byte in range(256))
        return cls(
            decode=lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)),
            byte_ids=frozenset(vocabulary[name] for name in names if name in vocabulary),
            special_ids=frozenset(
                number for number, token in tokenizer.added_tokens_decoder.items() if token.special
            ),
        )


@dataclass(slots=True)
class TokenText:
    """One completion's text, settled piece by piece.

    Tokens are decoded with those that gave the last piece before them, since some tokenizers drop
    the space before a first token.
    """

    decoder: TokenDecoder
    _window: list[int] = field(default_factory=list)
    _context: int = 0
    """So many tokens of the window belong to pieces that were given out whole."""
    _shown: int = 0
    """So many characters of the window's text were given out."""

    def push(self, token: int) -> str:
        """The text that is settled by this token, often empty."""
        if token in self.decoder.special_ids:
            return ""
        self._window.append(token)
        if token in self.decoder.byte_ids:
            return ""
        text = self.decoder.decode(self._window)
        if text.endswith(_REPLACEMENT):
            # Of a row of them only the last can still become a character.
            return self._take(text[:-1])
        piece = self._take(text)
        if piece:
            del self._window[: self._context]
            self._context = len(self._window)
            self._shown = len(self.decoder.decode(self._window))
        return piece

    def finish(self) -> str:
        """What is left when no token follows."""
        return self._take(self.decoder.decode(self._window))

    def _take(self, text: str) -> str:
        piece = text[self._shown :]
        self._shown += len(piece)
        return piece


@dataclass(slots=True)
class StopWatch:
    """Holds back what may be the beginning of a stop string, and cuts before the first whole one."""

    stops: Sequence[str]
    hit: bool = False
    _held: str = ""

    def push(self, text: str) -> str:
        """The part of the text that is no stop string and cannot become one."""
        self._held += text
        places = [place for stop in self.stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.hit = True
            return self._held[: min(places)]
        keep = max((_overlap(self._held, stop) for stop in self.stops), default=0)
        free = self._held[: len(self._held) - keep]
        self._held = self._held[len(free) :]
        return free

    def finish(self) -> str:
        """What is left when no text follows."""
        return "" if self.hit else self._held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that a stop string begins with."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
