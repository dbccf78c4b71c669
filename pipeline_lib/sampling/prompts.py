"""The one place where a problem becomes a prompt: for sampling, training and evaluation alike.

A model with a chat template of its own gets the instruction as a user message in that template;
a plain completion model (such as the small policy of the default run) gets a compact form.
"""

from pipeline_lib.records import ArcGold, CodeGold, CountdownGold, MathGold, Problem
from pipeline_lib.serving.chat_model import ChatFormat
from pipeline_lib.storage.files import digest_json

MATH_INSTRUCTION = "Reason step by step, and put the final answer within \\boxed{}."
CODE_INSTRUCTION = "Write the function in Python, complete, in one fenced code block."
COUNTDOWN_INSTRUCTION = (
    "Use each number exactly once. Write one arithmetic step a line, as in 3+5=8, "
    "nothing else; the last step gives the target."
)
ARC_INSTRUCTION = (
    "Find the rule, and give the output grid of the test input last, in one fenced block that holds "
    "nothing else: one row a line, digits separated by spaces."
)
TEMPLATE_VERSION = 1


def instruction(problem: Problem) -> str:
    """The message that a chat model is asked, question and answer format together."""
    match problem.gold:
        case MathGold():
            return f"{problem.question}\n\n{MATH_INSTRUCTION}"
        case CodeGold():
            return f"{problem.question}\n\n{CODE_INSTRUCTION}"
        case CountdownGold():
            return f"{problem.question}\n\n{COUNTDOWN_INSTRUCTION}"
        case ArcGold():
            return f"{problem.question}\n\n{ARC_INSTRUCTION}"


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


def template_digest(chat_format: ChatFormat | None) -> str:
    """Identity of the template; it is part of every path's provenance."""
    words = [MATH_INSTRUCTION, CODE_INSTRUCTION, COUNTDOWN_INSTRUCTION, ARC_INSTRUCTION]
    own = chat_format.digest if chat_format is not None else None
    return digest_json([TEMPLATE_VERSION, words, own])[:16]
