"""Cuts a drawn text, and its tokens, before the first forbidden text, or behind the first that ends a draw."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.engines.tokens import decode_completion, encode_completion, encode_prompt
from pipeline_lib.systems.apr.threads import ThreadGrammar

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTokens:
    """The tokens of the served model."""

    encode: Callable[[str], list[int]]
    """Of a prompt."""
    count: Callable[[str], int] | None = None
    """Tokens of a text that follows a prompt; None: not known."""
    decode: Callable[[Sequence[int]], str] | None = None
    """None: the ids of a cut text are not known."""

    @classmethod
    def of(cls, tokenizer: "PreTrainedTokenizerBase") -> "TextTokens":
        """The tokens of a Hugging Face tokenizer."""
        return cls(
            encode=partial(encode_prompt, tokenizer),
            count=lambda text: len(encode_completion(tokenizer, text)),
            decode=partial(decode_completion, tokenizer),
        )


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
    return KeptDraw(
        output=output,
        forged=forged,
        is_whole=is_whole,
        ids=ids,
        logprobs=completion.token_logprobs[: len(ids)]
        if ids and completion.token_logprobs
        else None,
        length=_length(completion, output, ids, None if is_whole else tokens),
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
    count = None if tokens is None else tokens.count
    return completion.completion_tokens if count is None else count(output)
