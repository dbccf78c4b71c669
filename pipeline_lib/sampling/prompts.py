"""Prompts of problems, the same for training and evaluation; in sampling they may begin with shots.

A model with a chat template gets question and instruction as a user message in that template, behind the other
messages of a problem that has some; a base model (such as the small policy of the default run) gets the kind's compact
prompt.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline_lib.engines.chat_model import ChatFormat, Message, Role
from pipeline_lib.kinds.kind import Kind
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_json

TEMPLATE_VERSION = 1


def conversation(problem: Problem, chat_format: ChatFormat) -> list[Message]:
    """The messages that ask a chat model: in words, or the compact prompt."""
    if chat_format.is_compact:
        return [Message.user(_plain(problem).removesuffix("\n"))]
    return messages_in_words(problem)


def messages_in_words(problem: Problem) -> list[Message]:
    """The messages of the problem, or its question; the last one ends with the requested answer format, if any."""
    *before, (_, asked) = problem.turns or ((Role.USER, problem.question),)
    wanted = "" if problem.is_whole_prompt else problem.kind.instruction
    return [
        *(Message(role=Role(role), content=content) for role, content in before),
        Message.user(f"{asked}\n\n{wanted}" if wanted else asked),
    ]


def instruction(problem: Problem) -> str:
    """Question and requested answer format, in words, as one text."""
    return "\n\n".join(message.content for message in messages_in_words(problem))


def render(
    problem: Problem, chat_format: ChatFormat | None, *, examples: Sequence[Problem] = ()
) -> str:
    """The prompt as text, special tokens included: it is tokenized without adding any.

    A system prompt is the problem's own, and comes first.

    Args:
        problem: the question.
        chat_format: template of a chat model.
        examples: problems with solutions, as earlier turns; a base model gets their prompts and
            solutions, divided by empty lines.
    """
    if chat_format is not None and not chat_format.is_compact:
        asked = messages_in_words(problem)
        system = [turn for turn in asked if turn.role is Role.SYSTEM]
        shown = [
            turn
            for example in examples
            for turn in (*messages_in_words(example), Message.assistant(_solution(example)))
            if turn.role is not Role.SYSTEM
        ]
        return chat_format.render([*system, *shown, *asked[len(system) :]])
    worked = (f"{_plain(example)}{_solution(example)}\n\n" for example in examples)
    return "".join([*worked, _plain(problem)])


def stops(chat_format: ChatFormat | None, examples: Sequence[Problem]) -> tuple[str, ...]:
    """Where a completion ends that would go on with a further problem, as its examples do; else none.

    A chat model ends its turn. A base model stops at an empty line, or, if an example has one in its
    solution, at the instruction of the next problem.
    """
    if not examples or (chat_format is not None and not chat_format.is_compact):
        return ()
    inner = any("\n\n" in _solution(example) for example in examples)
    return (examples[0].kind.instruction if inner else "\n\n",)


def _plain(problem: Problem) -> str:
    if problem.is_whole_prompt:
        return instruction(problem)
    compact_prompt = problem.kind.compact_prompt
    return compact_prompt(problem.gold) if compact_prompt else f"{instruction(problem)}\n\n"


def _solution(problem: Problem) -> str:
    assert problem.solution is not None
    return problem.kind.solution_texts(problem.gold, problem.solution)[0]


def template_digest(
    kind: Kind[Any], chat_format: ChatFormat | None, *, examples: Iterable[Problem] = ()
) -> str:
    """Identity of the template of one kind of problem; it is part of every path's provenance."""
    own = chat_format.digest if chat_format is not None else None
    shown = [[example.question, _solution(example)] for example in examples]
    return digest_json([TEMPLATE_VERSION, kind.instruction, own, *shown])[:16]
