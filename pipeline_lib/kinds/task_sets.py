"""Answers to problems of task sets, which the set's own library scores, in the tasks environment."""

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, StrictStr

from pipeline_lib.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class GymGold:
    """A row of a data set of reasoning-gym."""

    of: str
    """The data set, with level and config if it has any, as in ``gym:gcd{"level": 2}``."""
    entry: str
    """The row as a literal of Python, which has tuples."""


class _Gold(BaseModel):
    of: StrictStr
    entry: StrictStr


class _Line(BaseModel):
    gold: _Gold


def _read_line(row: Mapping[str, Any]) -> GymGold:
    return GymGold(**_Line.model_validate(row).gold.model_dump())


GYM = Kind(
    name="gym",
    gold=GymGold,
    instruction="Give the final answer between <answer> and </answer>.",
    solution_texts=lambda _gold, solution: [f"<answer>{solution}</answer>"],
    judge="pipeline_lib.verify.gym:open_judge",
    answer_form="pipeline_lib.verify.gym:answer_form",
    show_gold=lambda gold: str(ast.literal_eval(gold.entry)["answer"]),
    read_line=_read_line,
    write_line=lambda gold: {"gold": asdict(gold)},
)
