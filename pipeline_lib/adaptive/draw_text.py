"""Cuts a drawn text, and its tokens, before the first forbidden text."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline_lib.serving.chat_model import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTokens:
    """The served model's tokenizer, without special tokens."""

    encode: Callable[[str], Sequence[int]]
    decode: Callable[[Sequence[int]], str] | None = None
    """None: the ids of a cut text are not known."""

    @classmethod
    def of(cls, tokenizer: "PreTrainedTokenizerBase") -> "TextTokens":
        """The tokens of a Hugging Face tokenizer."""
        return cls(
            encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
            decode=lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=True)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDraw:
    """The kept part of a draw."""

    output: str
    forged: str | None
    """The forbidden text behind it, if there is one."""
    ids: tuple[int, ...] | None
    """Of ``output``, with the end token of a whole text; None if the engine gives none, or a token crosses
    the cut."""
    logprobs: tuple[float, ...] | None
    length: int
    """Tokens of ``output``; of a cut text without tokenizer, all that were drawn."""


def keep(completion: Completion, forbidden: Collection[str], tokens: TextTokens | None) -> KeptDraw:
    """Cut a completion before the first forbidden text, whether or not the engine stopped at it."""
    places = {text: at for text in forbidden if (at := completion.text.find(text)) >= 0}
    forged = min(places, key=places.__getitem__, default=None)
    output = completion.text if forged is None else completion.text[: places[forged]]
    if forged is None and completion.stopped_by in forbidden:
        forged = completion.stopped_by
    ids = completion.token_ids
    if forged is not None and ids is not None:
        decode = None if tokens is None else tokens.decode
        ids = None if decode is None else _head(ids, output, decode)
    return KeptDraw(
        output=output,
        forged=forged,
        ids=ids,
        logprobs=completion.token_logprobs[: len(ids)]
        if ids and completion.token_logprobs
        else None,
        length=_length(completion, output, ids, tokens if forged is not None else None),
    )


def _head(
    ids: Sequence[int], output: str, decode: Callable[[Sequence[int]], str]
) -> tuple[int, ...] | None:
    """The first ids, as many as decode to ``output``; None if no number of them does."""
    sizes = range(len(ids) + 1)
    size = bisect_right(sizes, len(output), key=lambda count: len(decode(ids[:count]))) - 1
    head = tuple(ids[:size])
    return head if decode(head) == output else None


def _length(
    completion: Completion, output: str, ids: Sequence[int] | None, tokens: TextTokens | None
) -> int:
    if ids is not None:
        return len(ids)
    return completion.completion_tokens if tokens is None else len(tokens.encode(output))
