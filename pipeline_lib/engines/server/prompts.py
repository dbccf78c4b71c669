"""Prompts of a request to token ids, with limits on their length."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.engines.server.responses import TOO_LONG, ApiError, bad_field
from pipeline_lib.engines.server.schemas import Message
from pipeline_lib.engines.tokens import encode_prompt, render_chat
from pipeline_lib.errors import reason_of

MAX_PROMPT_TOKENS = 1 << 20
"""Of all prompts of a request together."""
_LONGEST_PROMPT = 1 << 17
"""Tokens of one prompt, if the model declares no limit."""


@dataclass(kw_only=True)
class PromptTokenizer:
    """Renders and tokenizes prompts. Methods may take long: call them in a worker thread."""

    tokenizer: Any
    vocabulary_size: int
    """Rows of the model's embedding."""
    context_tokens: int | None
    """Limit of prompt and completion together; None if the model declares none."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._token_characters = max(map(len, self.tokenizer.get_vocab()), default=1)
        self._most_tokens = self.context_tokens or _LONGEST_PROMPT

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt for the assistant's turn. ApiError: 400; there is no template, or it refuses the messages."""
        if not self.tokenizer.chat_template:
            raise ApiError(
                400,
                "this model has no chat template; send a rendered prompt to /v1/completions",
                param="messages",
            )
        turns = [message.plain() for message in messages]
        try:
            return render_chat(self.tokenizer, turns)
        except Exception as error:  # the template is a program, and the messages are its input
            reason = reason_of(error)
            raise ApiError(400, f"the chat template refuses: {reason}", param="messages") from error

    def encode(
        self, prompt: str | list[int], by: Callable[[Any, str], list[int]] = encode_prompt
    ) -> list[int]:
        """Token ids of one prompt, of a text ``by`` a function of tokenizer and text.

        Raises:
            ApiError: 400; no tokens, too many, or one outside the vocabulary.
        """
        # Texts that cannot fit are refused before tokenization, which takes seconds for megabytes.
        characters = self._token_characters if isinstance(prompt, str) else 1
        if len(prompt) > (most := self._most_tokens) * characters:
            problem = f"more than {most} tokens, the maximum context length; shorten it"
            raise bad_field("prompt", problem, code=TOO_LONG)
        with self._lock:  # tokenizers are not thread-safe
            found = by(self.tokenizer, prompt) if isinstance(prompt, str) else prompt
        if not found:
            raise bad_field("prompt", "it is empty, give at least one token")
        if not 0 <= min(found) <= max(found) < self.vocabulary_size:
            raise bad_field("prompt", f"a token id is not in [0, {self.vocabulary_size})")
        return list(found)

    def max_new_tokens(self, prompts: Sequence[Sequence[int]], wanted: int | None) -> int:
        """Limit of each completion: ``wanted``, by default the rest of the context.

        Raises:
            ApiError: 400; the context is too short, or has no limit while ``wanted`` is None.
        """
        if (tokens := sum(map(len, prompts))) > MAX_PROMPT_TOKENS:
            raise bad_field(
                "prompt", f"{tokens} tokens in one request; at most {MAX_PROMPT_TOKENS}"
            )
        longest = max(map(len, prompts))
        if self.context_tokens is None:
            if wanted is None:
                raise ApiError(
                    400, "max_tokens: the model declares no context length; give a limit"
                )
            return wanted
        left = self.context_tokens - longest
        if left < (wanted or 1):
            raise ApiError(
                400,
                f"this model's maximum context length is {self.context_tokens} tokens: a prompt "
                f"of {longest} leaves {max(0, left)}, and {wanted or 1} are wanted; shorten the "
                "prompt or lower max_tokens",
                param="max_tokens",
                code=TOO_LONG,
            )
        return wanted or left
