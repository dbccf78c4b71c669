"""Texts of a language model's threads: turns of a conversation, tags, and their rendering and encoding."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from pipeline_lib.engines.chat_model import ChatFormat, Message
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.tokens import encode_completion, encode_prompt

ANSWER = "\x1e"
"""Separates the user's message from the answer; it is in neither."""
TURN = "\x1d"
"""Separates the turns of a conversation, the user's first."""
SPAWN, END_SPAWN, JOIN, END_JOIN = "<spawn>", "</spawn>", "<join>", "</join>"
_JOINED = re.compile(rf"(\n{JOIN}\n.*?{END_JOIN}\n)", re.DOTALL)
_CONTINUE = "Go on from where your answer ends. Repeat nothing of it."


def last_message(turns: str) -> str:
    """The user's last message."""
    return turns.rpartition(TURN)[2]


def answer_text(text: str) -> str:
    """The answer behind the last join, without the question; the whole answer if nothing was joined."""
    return text.partition(ANSWER)[2].rpartition(END_JOIN)[2].strip()


def _messages(turns: str) -> list[Message]:
    authors = (Message.user, Message.assistant)
    return [authors[place % 2](text) for place, text in enumerate(turns.split(TURN))]


def rendered(render: Callable[[Sequence[Message]], str]) -> Callable[[str], str]:
    """Texts as prompts: the turns by ``render``, then the answer. A text without a message stays as it is."""

    def wire(text: str) -> str:
        turns, separator, answer = text.partition(ANSWER)
        return render(_messages(turns)) + answer if separator else text

    return wire


def as_messages(text: str) -> str:
    """The messages of a text as JSON: its turns, and a begun answer with the request to go on."""
    turns, _, answer = text.partition(ANSWER)
    messages = [one.fields() for one in _messages(turns)]
    if answer:
        messages += [Message.assistant(answer).fields(), Message.user(_CONTINUE).fields()]
    return json.dumps(messages)


def wire_of(chat_format: ChatFormat | None) -> Callable[[str], str]:
    """Rendering of texts for a model: as messages, by its chat template, or plain without one."""
    if isinstance(chat_format, ServerChat):
        return as_messages
    if chat_format is None:
        return rendered(_plain)
    return rendered(chat_format.render)


def _plain(messages: Sequence[Message]) -> str:
    return "\n\n".join(
        one.content + ("\n\nAnswer:" if one.role == "user" else "") for one in messages
    )


def encode_context(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of a rendered text, each join encoded apart: what was drawn before and behind it keeps its tokens."""
    first, *others = _JOINED.split(prompt)
    return encode_prompt(tokenizer, first) + [
        token for text in others if text for token in encode_completion(tokenizer, text)
    ]
