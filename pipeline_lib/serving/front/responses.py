"""Answers in OpenAI's form: whole ones, and the chunks of a stream.

The two dialects differ in names and in how log-probabilities are laid out, so each is a class with
the same three methods (`Form`).
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from pipeline_lib.serving.front.generation import Piece
from pipeline_lib.serving.front.token_text import TokenDecoder, TokenText

Json = dict[str, Any]

# JSON has no infinity.
_LEAST_LOGPROB = -9999.0


class Form(Protocol):
    """One of OpenAI's two ways to write completions down."""

    def whole(self, piece: Piece) -> Json:
        """A choice that came in one piece."""
        ...

    def opening(self, index: int, /) -> Json | None:
        """What a stream says of a choice before its text, if anything."""
        ...

    def part(self, piece: Piece) -> Json:
        """A choice in a chunk of a stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to stand beside the text."""

    logprobs: bool
    alternatives: int
    """0 or 1; the one is the drawn token itself."""
    token_ids: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What is the same in all chunks of an answer."""

    kind: str
    model: str
    id: str
    created: int

    @classmethod
    def seal(cls, *, kind: str, prefix: str, model: str) -> "Envelope":
        """A new one."""
        return cls(
            kind=kind,
            model=model,
            id=f"{prefix}-{secrets.token_hex(16)}",
            created=int(datetime.now(UTC).timestamp()),
        )

    def around(self, choices: Sequence[Json], **more: Any) -> Json:
        """The answer that holds these choices."""
        head = {"id": self.id, "object": self.kind, "created": self.created, "model": self.model}
        return {**head, "choices": list(choices), **more}


@dataclass(slots=True, kw_only=True)
class Usage:
    """Tokens of one request. A prompt counts once, however many completions it has."""

    prompt_tokens: int
    cached_tokens: int = 0
    """Those that had been computed before, for this request or for another."""
    completion_tokens: int = 0

    def count(self, pieces: Sequence[Piece]) -> None:
        """Add what was drawn."""
        self.completion_tokens += sum(len(piece.tokens) for piece in pieces)
        self.cached_tokens += sum(piece.cached_tokens for piece in pieces)

    def json(self) -> Json:
        """In OpenAI's names."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(slots=True, kw_only=True)
class CompletionForm:
    """Of ``/v1/completions``. Implements Form."""

    wanted: Wanted
    name_of: Callable[[int], str]
    decoder: TokenDecoder
    _texts: dict[int, tuple[TokenText, int]] = field(init=False, default_factory=dict)
    """By choice: its text so far and the characters of it."""

    def whole(self, piece: Piece) -> Json:
        """Text, index, finish reason, and what was asked for beside them."""
        choice: Json = {
            "index": piece.index,
            "text": piece.text,
            "logprobs": self._logprobs(piece) if self.wanted.logprobs else None,
            "finish_reason": piece.finished.value if piece.finished else None,
        }
        return choice | ({"token_ids": list(piece.tokens)} if self.wanted.token_ids else {})

    def opening(self, _index: int) -> None:
        """Nothing comes before the text."""

    def part(self, piece: Piece) -> Json:
        """As a whole one: text is the text of the piece."""
        return self.whole(piece)

    def _logprobs(self, piece: Piece) -> Json:
        names = [self.name_of(token) for token in piece.tokens]
        values = [max(value, _LEAST_LOGPROB) for value in piece.logprobs]
        tops = [{name: value} for name, value in zip(names, values, strict=True)]
        return {
            "tokens": names,
            "token_logprobs": values,
            "top_logprobs": tops if self.wanted.alternatives else None,
            "text_offset": self._offsets(piece, names),
        }

    def _offsets(self, piece: Piece, names: Sequence[str]) -> list[int]:
        """Where in the text each token begins; for a part of a character, where that begins."""
        text, end = self._texts.get(piece.index) or (TokenText(decoder=self.decoder), 0)
        offsets = []
        for token, name in zip(piece.tokens, names, strict=True):
            settled = text.push(token)
            # It may have settled what bytes before it are, too.
            offsets.append(end + (len(settled) - len(name) if settled.endswith(name) else 0))
            end += len(settled)
        self._texts[piece.index] = text, end
        return offsets


@dataclass(slots=True, kw_only=True)
class ChatForm:
    """Of ``/v1/chat/completions``. Implements Form."""

    wanted: Wanted
    name_of: Callable[[int], str]

    def whole(self, piece: Piece) -> Json:
        """A message of the assistant."""
        return self._choice(piece, message={"role": "assistant", "content": piece.text})

    def opening(self, index: int) -> Json:
        """Whose turn it is."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def part(self, piece: Piece) -> Json:
        """What the message grew by."""
        return self._choice(piece, delta={"content": piece.text} if piece.text else {})

    def _choice(self, piece: Piece, **said: Json) -> Json:
        choice: Json = {
            "index": piece.index,
            **said,
            "logprobs": {"content": self._logprobs(piece)} if self.wanted.logprobs else None,
            "finish_reason": piece.finished.value if piece.finished else None,
        }
        return choice | ({"token_ids": list(piece.tokens)} if self.wanted.token_ids else {})

    def _logprobs(self, piece: Piece) -> list[Json]:
        lines = []
        for token, logprob in zip(piece.tokens, piece.logprobs, strict=True):
            name = self.name_of(token)
            # Half a character has bytes too, but a tokenizer does not tell which.
            known = "\N{REPLACEMENT CHARACTER}" not in name
            line: Json = {
                "token": name,
                "logprob": max(logprob, _LEAST_LOGPROB),
                "bytes": list(name.encode()) if known else None,
            }
            lines.append(line | {"top_logprobs": [dict(line)] if self.wanted.alternatives else []})
        return lines
