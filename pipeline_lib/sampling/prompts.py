"""Prompts of problems, the same for training and evaluation; in sampling they may begin with shots.

A model with a chat template gets question and instruction as a user message in that template; a base
model (such as the small policy of the default run) gets the kind's compact prompt.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline_lib.engines.chat_model import ChatFormat, Message
from pipeline_lib.kinds.kind import Kind
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_json

TEMPLATE_VERSION = 1


def user_message(problem: Problem, chat_format: ChatFormat) -> str:
    """The message that asks a chat model: question and requested answer format, or the compact prompt."""
    if chat_format.is_compact:
        return _plain(problem).removesuffix("\n")
    return instruction(problem)


def instruction(problem: Problem) -> str:
    """Question and requested answer format, in words."""
    return f"{problem.question}\n\n{problem.kind.instruction}"


def render(
    problem: Problem, chat_format: ChatFormat | None, *, examples: Sequence[Problem] = ()
) -> str:
    """The prompt as text, special tokens included: it is tokenized without adding any.

    Args:
        problem: the question.
        chat_format: template of a chat model.
        examples: problems with solutions, as earlier turns; a base model gets their prompts and
            solutions, divided by empty lines.
    """
    if chat_format is not None and not chat_format.is_compact:
        shown = [
            turn
            for example in examples
            for turn in (
                Message.user(instruction(example)),
                Message.assistant(_solution(example)),
            )
        ]
        return chat_format.render([*shown, Message.user(instruction(problem))])
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
