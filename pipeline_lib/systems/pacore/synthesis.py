"""Prompts of a synthesis: the last user message with the messages of the round before as references."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import ChatFormat, Conversation, Message

VERSION = 1
"""Of the texts below; part of the key of a resumable file."""

_BEFORE = (
    "Below are a problem and {count} candidate solutions of it, drawn independently. Any of them may be "
    "wrong or incomplete, and a majority can be wrong too. Check their steps against the problem, use "
    "what is correct, and solve the problem."
)
_AFTER = (
    "Write your own complete solution. It is read without the candidates, so do not refer to them, and "
    "give the final answer in the form that the problem asks for."
)
SUMMARY_REQUEST = (
    "Summarize your solution in a few sentences: the decisive steps, and the final answer in the form "
    "that the problem asks for."
)


References = Sequence[tuple[int, str]]
"""Paths by their index in the round, each with its message."""


def synthesis_in_words(question: str, references: Sequence[str]) -> str:
    """The message for a model that follows instructions."""
    numbered = (
        f"Candidate solution {number}:\n{text}" for number, text in enumerate(references, start=1)
    )
    parts = (
        _BEFORE.format(count=len(references)),
        f"Problem:\n{question}",
        *numbered,
        _AFTER,
    )
    return "\n\n".join(parts)


def compact_synthesis(question: str, references: Sequence[str]) -> str:
    """The message for a model that was trained to synthesize compact prompts, and reads no words."""
    numbered = (f"#{number}\n{text}" for number, text in enumerate(references, start=1))
    return "\n".join((question, *numbered, "!"))


def synthesis_prompt(
    conversation: Conversation, references: References, chat_format: ChatFormat
) -> list[Message]:
    """The conversation with its last message replaced by problem and numbered references.

    Without references the conversation itself is returned, so a round after one in which every call
    failed asks the plain question.
    """
    *earlier, question = conversation
    if not references:
        return [*earlier, question]
    form = compact_synthesis if chat_format.is_compact else synthesis_in_words
    content = form(question.content, [text for _, text in references])
    return [*earlier, replace(question, content=content)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPrompt:
    """A rendered synthesis prompt with as many references as fit into the context."""

    text: str
    shown: Sequence[int]
    """Paths whose messages are in it, in their order."""
    dropped: int
    """References at the end that did not fit."""


def fit_prompt(
    conversation: Conversation,
    references: References,
    *,
    chat_format: ChatFormat,
    fits: Callable[[str], bool],
) -> FittedPrompt:
    """The prompt with the first of ``references``; none is cut."""

    def rendered(count: int) -> str:
        return chat_format.render(synthesis_prompt(conversation, references[:count], chat_format))

    count, text = len(references), rendered(len(references))
    if references and not fits(text):
        fewer = range(1, count)
        count = bisect.bisect_left(fewer, 1, key=lambda one: int(not fits(rendered(one))))
        text = rendered(count)
    return FittedPrompt(
        text=text,
        shown=[path for path, _ in references[:count]],
        dropped=len(references) - count,
    )


def summary_prompt(conversation: Conversation, path: str) -> list[Message]:
    """The conversation, a path as the model's answer, and the request for a summary of it."""
    return [*conversation, Message.assistant(path), Message.user(SUMMARY_REQUEST)]
