"""Incremental detokenization, and stop strings in streamed text.

A token may end within a character, and the next one may complete a stop string. So text is emitted
only once no later token can change it; the emitted parts add up to exactly the decoded whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipeline_lib.engines.tokens import decode_completion

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

    Tokens are decoded together with those of the last emitted part, since some tokenizers drop the
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
        places = {stop: place for stop in self.stops if (place := self._held.find(stop)) >= 0}
        if places:
            self.stopped_by = min(places, key=places.__getitem__)
            return self._held[: places[self.stopped_by]]
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
