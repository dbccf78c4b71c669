"""Loading from Hugging Face folders and hub ids: tokenizers, chat templates, models."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from pipeline_lib.engines.chat_model import ChatFormat, Conversation
from pipeline_lib.engines.tokens import COMPACT_TEMPLATE, render_chat, template_source
from pipeline_lib.errors import errors_at


@dataclass(frozen=True, slots=True)
class TokenizerChatFormat:
    """The chat template that a tokenizer carries. Implements ChatFormat."""

    tokenizer: PreTrainedTokenizerBase

    @property
    def digest(self) -> str:
        """Digest of the template's source, and of the date that it prints."""
        return hashlib.sha256(template_source(self.tokenizer).encode()).hexdigest()[:16]

    @property
    def is_compact(self) -> bool:
        """True for `COMPACT_TEMPLATE`."""
        return bool(self.tokenizer.chat_template == COMPACT_TEMPLATE)

    def render(self, conversation: Conversation) -> str:
        """The turns of the conversation, and the start of the assistant's."""
        return render_chat(self.tokenizer, [turn.fields() for turn in conversation])


def chat_format_of(tokenizer: PreTrainedTokenizerBase) -> ChatFormat | None:
    """The tokenizer's chat format, or None without a template."""
    return TokenizerChatFormat(tokenizer) if tokenizer.chat_template else None


def load_chat_format(source: str) -> ChatFormat | None:
    """The chat format of a model, from its tokenizer alone."""
    return chat_format_of(load_tokenizer(source))


def load_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a Hugging Face folder or hub id. BadInputError: there is none that can be read."""
    tokenizer: PreTrainedTokenizerBase = load_pretrained(AutoTokenizer.from_pretrained, source)
    return tokenizer


def vocabulary_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Digest of how texts become token ids: equal for tokenizers that differ in their chat template alone."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    parts = ("added_tokens", "normalizer", "pre_tokenizer", "model")
    content = json.dumps([backend[part] for part in parts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def load_pretrained(loader: Callable[..., Any], source: str, **options: Any) -> Any:
    """The result of ``loader``, a ``from_pretrained``; code in the model's folder is never run.

    Raises:
        BadInputError: ``source`` cannot be found or read.
    """
    # Its bars would mix with the command's bars, and with the one line of an error.
    disable_progress_bar()  # type: ignore[no-untyped-call]
    remedy = "give a Hugging Face folder or a reachable hub id"
    # Files from outside can be wrong in any way. By default, transformers prompts on the terminal.
    with errors_at(f"model {source}", Exception, remedy=remedy):
        return loader(source, trust_remote_code=False, **options)
