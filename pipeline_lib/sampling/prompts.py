"""Prompts of problems, the same for sampling, training and evaluation.

A model with a chat template gets question and instruction as a user message in that template; a base
model (such as the small policy of the default run) gets the kind's compact prompt.
"""

from typing import Any

from pipeline_lib.kinds.kind import Kind
from pipeline_lib.records import Problem
from pipeline_lib.serving.chat_model import ChatFormat
from pipeline_lib.storage.files import digest_json

TEMPLATE_VERSION = 1


def instruction(problem: Problem) -> str:
    """The user message of a chat model: question and requested answer format."""
    return f"{problem.question}\n\n{problem.kind.instruction}"


def render(problem: Problem, chat_format: ChatFormat | None) -> str:
    """The prompt as text, special tokens included: it is tokenized without adding any."""
    if chat_format is not None:
        return chat_format.render(instruction(problem))
    compact_prompt = problem.kind.compact_prompt
    return compact_prompt(problem.gold) if compact_prompt else f"{instruction(problem)}\n\n"


def template_digest(kind: Kind[Any], chat_format: ChatFormat | None) -> str:
    """Identity of the template of one kind of problem; it is part of every path's provenance."""
    own = chat_format.digest if chat_format is not None else None
    return digest_json([TEMPLATE_VERSION, kind.instruction, own])[:16]
