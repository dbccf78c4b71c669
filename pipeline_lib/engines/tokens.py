"""From texts to token ids and back: the only place that calls a tokenizer or renders its chat template.

A prompt begins as the model's training text began. A chat template writes all special tokens itself, as
transformers, TRL and vLLM have it. Without one, the prompt begins with the tokens that the tokenizer puts
before a text, such as ``<bos>``. What follows a prompt gets no special token, and no space that it lacks.
"""

import datetime as dt
import functools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

COMPACT_TEMPLATE = "{{ messages[-1]['content'] + '\\n' }}"
"""Template of models that were made from scratch on compact prompts, and read one message. It writes no
special token."""
TEMPLATE_DATE = dt.date(2025, 1, 1)
"""Today's date for every chat template that prints it: a run that is resumed after midnight, or repeated,
draws with the same prompts."""
_CLOCK = "strftime_now"
"""transformers' name of a template's only clock."""
_ENCODE_AFTER, _DECODE_AFTER = "\n", "a"
"""Texts before a completion. SentencePiece merges no piece with a line feed; a letter is no byte token."""


def render_chat(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> str:
    """The messages by the tokenizer's chat template, with the start of the assistant's turn."""
    clock = {_CLOCK: TEMPLATE_DATE.strftime}
    return str(
        tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **clock)
    )


def template_source(tokenizer: Any) -> str:
    """The template, followed by the date if the template prints one: a rendered prompt follows from it and the messages."""
    template = str(tokenizer.chat_template)
    return f"{template}{TEMPLATE_DATE}" if _CLOCK in template else template


def encode_prompt(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of a rendered prompt, or of one with the beginning of its completion."""
    ids = encode_text(tokenizer, prompt, add_special_tokens=False)
    if tokenizer.chat_template and tokenizer.chat_template != COMPACT_TEMPLATE:
        return ids
    start = _text_start(tokenizer)
    return ids if ids[: len(start)] == start else start + ids


Spans = Sequence[tuple[int, int]]
"""First and behind the last."""


def encode_prompts(
    tokenizer: Any, prompts: Sequence[str], spans: Sequence[Spans]
) -> list[tuple[list[int], Spans]]:
    """As `encode_prompt`, in one batch, and the spans of tokens that hold ``spans`` of characters of each prompt."""
    start = encode_prompt(tokenizer, prompts[0])
    encoded = tokenizer(list(prompts), add_special_tokens=False, verbose=False)
    start = start[: len(start) - len(encoded["input_ids"][0])]
    return [
        (
            [*start, *ids],
            [
                (
                    len(start) + encoded.char_to_token(place, first),
                    len(start) + encoded.char_to_token(place, behind - 1) + 1,
                )
                for first, behind in own
            ],
        )
        for place, (ids, own) in enumerate(zip(encoded["input_ids"], spans, strict=True))
    ]


def encode_completions(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """As `encode_completion`, in one batch where the tokenizer adds no space."""
    if _ids_before(tokenizer, _ENCODE_AFTER):
        return [encode_completion(tokenizer, text) for text in texts]
    found: list[list[int]] = tokenizer(list(texts), add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    return found


def encode_completion(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text that follows a prompt, without an end token."""
    before = _ids_before(tokenizer, _ENCODE_AFTER)
    if before:
        ids = encode_text(tokenizer, _ENCODE_AFTER + text, add_special_tokens=False)
        # A tokenizer that normalizes the line feed away has no such beginning, and keeps its added space.
        if ids[: len(before)] == before:
            return ids[len(before) :]
    return encode_text(tokenizer, text, add_special_tokens=False)


def decode_completion(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of drawn tokens, without special ones. Inverse of :func:`encode_completion`."""
    before = _ids_before(tokenizer, _DECODE_AFTER)
    text = str(tokenizer.decode([*before, *ids], skip_special_tokens=True))
    return text[len(_DECODE_AFTER) :] if before else text


def count_within(tokenizer: Any, ids: Sequence[int], text: str) -> int:
    """The fewest drawn tokens that have ``text``, a beginning of theirs."""
    return bisect_left(
        range(len(ids)), len(text), key=lambda count: len(decode_completion(tokenizer, ids[:count]))
    )


def encode_text(tokenizer: Any, text: str, *, add_special_tokens: bool) -> list[int]:
    """Token ids of a text, with the special tokens that the tokenizer itself adds or without any."""
    # Silent about texts that exceed the context: callers check lengths themselves.
    ids: list[int] = tokenizer.encode(text, add_special_tokens=add_special_tokens, verbose=False)
    return ids


def decode_token(tokenizer: Any, token: int) -> str:
    """The name of one token, special or not."""
    return str(tokenizer.decode([token]))


@functools.lru_cache(maxsize=8)
def _text_start(tokenizer: Any) -> list[int]:
    """The tokens that the tokenizer puts before a text."""
    plain = encode_text(tokenizer, "1", add_special_tokens=False)
    whole = encode_text(tokenizer, "1", add_special_tokens=True)
    return next(whole[:at] for at in range(len(whole)) if whole[at : at + len(plain)] == plain)


@functools.lru_cache(maxsize=16)
def _ids_before(tokenizer: Any, text: str) -> list[int]:
    """Ids of ``text`` for a tokenizer that adds a space before a first word; else none."""
    ids = encode_text(tokenizer, "a", add_special_tokens=False)
    adds_space = any(one.startswith("▁") for one in tokenizer.convert_ids_to_tokens(ids))
    return encode_text(tokenizer, text, add_special_tokens=False) if adds_space else []
