"""A question, its solution in rounds of paths, as JSON too, and the prompts that show a round to the next one."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipeline_lib.engines.chat_model import ChatFormat, Completion, Conversation, Message
from pipeline_lib.records import FinishReason, Row
from pipeline_lib.sampling.compute_cost import NOTHING, Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A conversation whose last turn, the user's, asks the question."""

    id: str
    conversation: Conversation
    responses: Sequence[str] = ()
    """Texts of the first round, which is not drawn then; empty: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a solution; sequences have one entry per path that was asked for."""

    completions: Sequence[Completion]
    messages: Sequence[str | None]
    """Compacted paths; None for a failed path or one without a message, and in the last round."""
    references: Sequence[Sequence[int]]
    """Paths of the round before whose messages each path has seen, in the order shown."""
    width: int
    """Planned paths; an early stop asks for fewer."""
    dropped: int
    """References that did not fit into the context, over all paths."""
    cost: Cost
    is_given: bool = False
    """Its texts are responses of the question; nothing was asked."""

    @property
    def num_failed(self) -> int:
        """Paths whose call failed."""
        return sum(one.error is not None for one in self.completions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """All rounds of one question."""

    question: Question
    rounds: Sequence[Round]
    elected: int | None = None
    """The path of the last round that won a vote; None: the last round gives the answers."""

    @property
    def answers(self) -> Sequence[Completion]:
        """The completions of the last round, or the elected one."""
        drawn = self.rounds[-1].completions
        return drawn if self.elected is None else [drawn[self.elected]]

    @property
    def cost(self) -> Cost:
        """Of all rounds, which follow each other."""
        total = NOTHING
        for one in self.rounds:
            total = total.then(one.cost)
        return total


def given_round(responses: Sequence[str]) -> Round:
    """The first round of a question with responses, which costs nothing here."""
    completions = [
        Completion(
            text=text,
            finish_reason=FinishReason.STOP,
            prompt_tokens=0,
            completion_tokens=0,
            logprob=None,
        )
        for text in responses
    ]
    return Round(
        completions=completions,
        messages=[None] * len(completions),
        references=[()] * len(completions),
        width=len(completions),
        dropped=0,
        cost=NOTHING,
        is_given=True,
    )


def solution_row(solution: Solution) -> Row:
    """The output line of a solution, in the fields of PaCoRe's published results and further ones."""
    answer = solution.answers[0]
    return {
        "request_id": solution.question.id,
        "status": answer.finish_reason.value,
        "final_response": answer.text,
        "final_reasoning_content": answer.reasoning,
        "round_responses": [
            [_response(one) for one in drawn.completions] for drawn in solution.rounds
        ],
        "rounds": [round_counts(drawn) for drawn in solution.rounds],
        "usage": usage_counts(solution.cost),
        "critical_tokens": solution.cost.critical_tokens,
    }


def _response(completion: Completion) -> Row:
    text = None if completion.error else completion.text
    response: Row = {"content": text, "reasoning_content": completion.reasoning}
    if completion.logprob is not None:
        response |= {
            "logprob": completion.logprob,
            "completion_tokens": completion.completion_tokens,
        }
    return response if completion.model is None else response | {"model": completion.model}


def round_counts(drawn: Round) -> Row:
    """Planned and sent calls for paths of a round, failures, references and tokens."""
    return {
        "planned": 0 if drawn.is_given else drawn.width,
        "asked": 0 if drawn.is_given else len(drawn.completions),
        "failed": drawn.num_failed,
        "references": len(set().union(*drawn.references)),
        "dropped": drawn.dropped,
        "prompt_tokens": drawn.cost.prompt_tokens,
        "completion_tokens": drawn.cost.completion_tokens,
    }


def usage_counts(cost: Cost) -> Row:
    """Tokens and calls of a solution."""
    return {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "total_tokens": cost.prompt_tokens + cost.completion_tokens,
        "calls": cost.calls,
        "failed_calls": cost.failed_calls,
    }


VERSION = 1
"""Of the prompts below; part of the key of a resumable file."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """Rendering of synthesis prompts for one model, and compaction of what it wrote."""

    chat_format: ChatFormat
    fits: Callable[[str], bool]
    """False: prompt and completion exceed the model's context."""
    message_of: Callable[[str], str | None]
    """Compaction of the text of a path or of a summary; None: it gives no reference."""

    def fit(self, conversation: Conversation, references: References) -> FittedPrompt:
        """The prompt with the first of ``references``; none is cut."""

        def rendered(count: int) -> str:
            prompt = synthesis_prompt(conversation, references[:count], self.chat_format)
            return self.chat_format.render(prompt)

        count, text = len(references), rendered(len(references))
        if references and not self.fits(text):
            fewer = range(1, count)
            count = bisect.bisect_left(fewer, 1, key=lambda one: int(not self.fits(rendered(one))))
            text = rendered(count)
        return FittedPrompt(
            text=text,
            shown=[path for path, _ in references[:count]],
            dropped=len(references) - count,
        )


def summary_prompt(conversation: Conversation, path: str) -> list[Message]:
    """The conversation, a path as the model's answer, and the request for a summary of it."""
    return [*conversation, Message.assistant(path), Message.user(SUMMARY_REQUEST)]
