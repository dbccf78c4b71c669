"""Answers to problems of reasoning-gym and of verifiers, which their own libraries score, in the tasks environment."""

import ast
from dataclasses import asdict, dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, Field

from pipeline_lib.kinds.kind import Kind
from pipeline_lib.kinds.own import last_line

_Gold = TypeVar("_Gold")


@dataclass(frozen=True, slots=True, kw_only=True)
class GymGold:
    """A row of a data set of reasoning-gym, as a literal of Python, which has tuples."""

    of: Annotated[str, Field(pattern=r"^gym:\w+(\{.*\})?$")]
    """The set with its options, as in ``gym:gcd{"level": 2}``."""
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGold(GymGold):
    """A task of a set of verifiers, as JSON: its ``data``, and the ``nodes`` of the messages before the answer."""

    of: Annotated[str, Field(pattern=r"^verifiers:[\w./@-]+(\{.*\})?$")]


class _Line(BaseModel, Generic[_Gold]):
    gold: _Gold


GYM = Kind(
    name="gym",
    gold=GymGold,
    instruction="Give the final answer between <answer> and </answer>.",
    solution_texts=lambda _gold, solution: [f"<answer>{solution}</answer>"],
    judge="pipeline_lib.verify.gym:GymJudge",
    answer_form="pipeline_lib.verify.gym:answer_form",
    show_gold=lambda gold: str(ast.literal_eval(gold.entry)["answer"]),
    read_line=lambda row: _Line[GymGold].model_validate(row).gold,
    write_line=lambda gold: {"gold": asdict(gold)},
)
VERIFIERS = Kind(
    name="verifiers",
    gold=TaskGold,
    instruction="",
    judge="pipeline_lib.verify.own:open_set_judge",
    answer_form=last_line,
    show_gold=lambda gold: gold.of,
    read_line=lambda row: _Line[TaskGold].model_validate(row).gold,
    write_line=lambda gold: {"gold": asdict(gold)},
)
