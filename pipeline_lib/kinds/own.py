"""Answers of a task of your own: any value of JSON, which its verifier reads."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel

from pipeline_lib.kinds.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGold:
    """The answer as JSON text."""

    answer: str


def _known(value: Any) -> Any:
    if value is None:
        raise ValueError("Field required")
    return value


class _Line(BaseModel):
    gold: Annotated[Any, AfterValidator(_known)]


def own_gold(answer: Any) -> OwnGold:
    """The gold of an answer; ValueError or TypeError: it is no value of JSON."""
    return OwnGold(answer=json.dumps(answer, sort_keys=True, allow_nan=False))


def _read_line(row: Mapping[str, Any]) -> OwnGold:
    return own_gold(_Line.model_validate(row).gold)


def last_line(text: str) -> str | None:
    """The last line of a text that is not empty: the answer, where a task says nothing else."""
    lines = text.split()
    return text.strip().rpartition("\n")[2].strip() if lines else None


OWN = Kind(
    name="own",
    gold=OwnGold,
    instruction="",
    judge="pipeline_lib.verify.own:open_judge",
    answer_form=last_line,
    show_gold=lambda gold: str(json.loads(gold.answer)),
    read_line=_read_line,
    write_line=lambda gold: {"gold": json.loads(gold.answer)},
)
