"""The one place where a problem becomes a prompt: for sampling, training and evaluation alike.

A model with a chat template of its own gets the instruction as a user message in that template;
a plain completion model (such as the small policy of the default run) gets a compact form.
"""

from collections.abc import Mapping

from pipeline_lib.records import CountdownGold, Kind, Problem
from pipeline_lib.serving.chat_model import ChatFormat
from pipeline_lib.storage.files import digest_json

INSTRUCTIONS: Mapping[Kind, str] = {
    Kind.MATH: "Reason step by step, and put the final answer within \\boxed{}.",
    Kind.CODE: "Write the function in Python, complete, in one fenced code block.",
    Kind.COUNTDOWN: (
        "Use each number exactly once. Write one arithmetic step a line, as in 3+5=8, "
        "nothing else; the last step gives the target."
    ),
    Kind.ARC: (
        "Find the rule, and give the output grid of the test input last, in one fenced block that "
        "holds nothing else: one row a line, digits separated by spaces."
    ),
}
TEMPLATE_VERSION = 1


def instruction(problem: Problem) -> str:
    """The message that a chat model is asked, question and answer format together."""
    return f"{problem.question}\n\n{INSTRUCTIONS[problem.kind]}"


def render(problem: Problem, chat_format: ChatFormat | None) -> str:
    """The exact text that a model continues.

    It holds every special token that is wanted, so it is tokenized without adding any.
    """
    if chat_format is not None:
        return chat_format.render(instruction(problem))
    if isinstance(problem.gold, CountdownGold):
        numbers = ",".join(str(number) for number in problem.gold.numbers)
        return f"{numbers}={problem.gold.target}\n"
    return f"{instruction(problem)}\n\n"


def template_digest(kind: Kind, chat_format: ChatFormat | None) -> str:
    """Identity of the template of one kind of problem; it is part of every path's provenance."""
    own = chat_format.digest if chat_format is not None else None
    return digest_json([TEMPLATE_VERSION, INSTRUCTIONS[kind], own])[:16]
